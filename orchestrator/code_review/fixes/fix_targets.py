"""What a proof compares with: the findings to fix, and what each analyzer said of head."""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from orchestrator.code_review.findings.located_findings import LocatedFinding


class FixTarget(Struct, frozen=True):
    """A finding that a patch is to fix.

    Attributes:
        fingerprints: of all reports of it.
        path: where it is.
        tools: names of the tools whose reports these are; empty where only agents report it.
        cause_path: of the line that causes it elsewhere, or empty.
    """

    fingerprints: frozenset[str]
    path: str
    tools: frozenset[str] = frozenset()
    cause_path: str = ""


class ToolReport(Struct, frozen=True):
    """What a tool's calls gave over head as it is: its findings, and the files it read as code."""

    findings: tuple[LocatedFinding, ...] = ()
    read: frozenset[str] = frozenset()

    def at(self, paths: Collection[str]) -> Iterable[LocatedFinding]:
        """The findings in some files."""
        return (finding for finding in self.findings if finding.path in paths)


class FixFocus(Struct):
    """What the tool of proofs must know of the review. The flow sets it.

    Attributes:
        targets: a finding's id or fingerprint → what is to be fixed.
        reported: tool → what it said of head.
        programs: the tools that run tests or type checks of base, and are content with head.
    """

    targets: Mapping[str, FixTarget] = field(default_factory=dict)
    reported: Mapping[str, ToolReport] = field(default_factory=dict)
    programs: frozenset[str] = frozenset()
