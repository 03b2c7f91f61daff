"""What a proof compares with: the findings to fix, and each analyzer's report on head."""

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from orchestrator.code_review.findings.located_findings import LocatedFinding
from orchestrator.code_review.verdict.document_parts import Proof


class FixTarget(Struct, frozen=True):
    """A finding that a patch is to fix.

    Attributes:
        fingerprints: of all reports of it.
        tools: names of the tools that report it; empty if only agents do.
        cause_path: of the line elsewhere that causes it; may be empty.
        tests: that reproduced it.
        words: its title, explanation and fix, which may name other files to patch.
    """

    fingerprints: frozenset[str]
    path: str
    tools: frozenset[str] = frozenset()
    cause_path: str = ""
    words: str = ""
    tests: tuple[Proof, ...] = ()

    def names(self, path: str, paths: Iterable[str]) -> bool:
        """Whether the finding names a file of head, in full or by a name that no other has."""
        name = path.rpartition("/")[2]
        unique = sum(each.rpartition("/")[2] == name for each in paths) == 1
        pattern = "|".join(map(re.escape, (path, name) if unique else (path,)))
        return bool(re.search(rf"(?<![\w./-])(?:{pattern})(?![\w/-]|\.\w)", self.words))


class ToolReport(Struct, frozen=True):
    """The results of a tool's calls on head: its findings, and the files it read as code."""

    findings: tuple[LocatedFinding, ...] = ()
    read: frozenset[str] = frozenset()


class FixFocus(Struct):
    """What the tool ``prove_fixes`` must know of the review. The flow sets it.

    Attributes:
        targets: a finding's id or fingerprint → the finding to fix.
        reported: tool → its report on head.
        programs: the tools that run tests or type checks of base and pass on head.
    """

    targets: Mapping[str, FixTarget] = field(default_factory=dict)
    reported: Mapping[str, ToolReport] = field(default_factory=dict)
    programs: frozenset[str] = frozenset()
