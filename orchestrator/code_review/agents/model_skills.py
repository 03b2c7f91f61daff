"""What an agent's model is shown of skills: playbooks for its files, and knowledge packs.

Playbooks are cut to what a model judges by. Code chooses packs, and their items, from what changed:
base says which files each is for, and the text of a change decides nothing else.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.check_io import decode_text
from diffchecks.file_patterns import matches
from orchestrator.catalog.effort import word_finder
from orchestrator.catalog.playbook_steps import CHECKED, drop_mentions, keep_judgment
from orchestrator.code_review.agents.effort_tiers import changed_lines
from orchestrator.code_review.agents.uncalled_analyzers import find_tool
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.lead_tools import kind_of
from orchestrator.code_review.tools.registry import ANALYZERS, TOOLS
from orchestrator.engine.types import AgentSpec, Skill, SkillScope

MAX_PACKS = 3
"""Knowledge packs of one agent."""
MAX_MANIFESTS = 50
"""That are read to tell which packages base defines."""
_PACKAGE = re.compile(r"(?:(?:src|lib|python)/)?([^/]+)/__init__\.py")
_RUBY = re.compile(r"(?:[^/]+/)?lib/(\w+)\.rb")
_MANIFEST = re.compile(
    r"(?:[^/]+/){0,2}(?:(?:package|composer)\.json|(?:Cargo|pyproject)\.toml|go\.mod|setup\.\w+)"
)
_NAMED = re.compile(r"""(?m)^[ \t]*(?:"?name"?\s*[=:]\s*|module\s+)(["']?)([\w@./-]+)\1,?\s*$""")
_NAMESPACE = re.compile(r'(?m)^[ \t]*"(\w+)\\{2}[\w\\]*"\s*:')
_PART = re.compile(r"\w+")
_ITEM = re.compile(r"(?m)^(?=## )")
_WORDS = re.compile(r"(?m)^Words: (.+)\n?")
LEAD_TOOLS = ("propose_plan",)
"""What they answer is in the lead's first message where a model leads."""


class _Text(Struct, frozen=True):
    """A changed file's text and its parts of words; ``own`` are packages that base defines."""

    path: str
    text: str
    parts: frozenset[str]
    changed_lines: int
    own: Set[str]

    def has(self, words: Collection[str]) -> bool:
        """Whether one of these words is in it that names no package of base, or there are none.

        A word such as ``.tf`` is the ending of a path.
        """
        return not words or any(
            self.path.endswith(word)
            if word.startswith(".")
            else self.parts.issuperset(_PART.findall(word))  # which takes less time
            and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", self.text)
            for word in words
            if self.own.isdisjoint({word, re.split(r"[.(]", word)[0]})
        )


async def choose_packs(state: ReviewState) -> None:
    """Give each examining agent the packs that cover most changed lines of its files."""
    assignment, skills = state.assignment, state.given.catalog.skills
    if assignment is None or assignment.tier == "trivial":  # that is read without any skill
        return
    packs = [skill for skill in skills.values() if skill.scope.topics]
    texts = await _read_texts(state, packs)
    shares = {share.agent: share.paths for share in assignment.shares}
    for name in state.examiners:
        own = {path: texts[path] for path in shares.get(name, texts) if path in texts}
        own_skills = state.agent(name).skills
        topics = {topic for skill in own_skills for topic in skill.requires.categories}
        listed = {skill.name for skill in own_skills}
        cut = [
            _cut(pack, own)
            for pack in packs
            if pack.name not in listed and (not topics or topics.intersection(pack.scope.topics))
        ]
        found = sorted(filter(None, cut), key=lambda entry: (-entry[0], entry[1].name))
        if found:
            state.packs[name] = tuple(pack for _, pack in found[:MAX_PACKS])
    chosen = {name: tuple(pack.name for pack in given) for name, given in state.packs.items()}
    state.assignment = replace(assignment, packs=chosen)


async def _read_texts(state: ReviewState, packs: Iterable[Skill]) -> Mapping[str, _Text]:
    """Path → the text of each reviewed file that a pack can be for; tests choose none."""
    workspace, found = state.given.workspace, dict[str, _Text]()
    own, patterns = await _own_packages(state), [one for pack in packs for one in pack.scope.files]
    for file in workspace.change.files:
        blob, changed = file.new_blob or file.old_blob, len(file.added) + len(file.removed)
        chooses = matches(file.path, patterns) and kind_of(file.path) != "test"
        if blob and changed and chooses and not workspace.left_out(file):
            text = decode_text(await workspace.contents.read(blob))
            found[file.path] = _Text(file.path, text, frozenset(_PART.findall(text)), changed, own)
    return found


def _cut(pack: Skill, files: Mapping[str, _Text]) -> tuple[int, Skill] | None:
    """A pack with the items for these files, and their changed lines; None: it is for none.

    An item may end in a line of words; then one of the files must have one.
    """
    scope = pack.scope
    having = [t for path, t in files.items() if matches(path, scope.files) and t.has(scope.words)]
    title, *items = _ITEM.split(pack.text)
    kept = [
        _WORDS.sub("", item)
        for item in items
        if any(text.has("".join(_WORDS.findall(item)).split()) for text in having)
    ]
    if not having or (items and not kept):
        return None
    lines = sum(text.changed_lines for text in having)
    return lines, replace(pack, text="".join([title, *kept]).rstrip())


async def _own_packages(state: ReviewState) -> Set[str]:
    """The packages that base defines: a pack is for those who import one, not for its authors."""
    contents = state.given.workspace.contents
    listed = await contents.regular("base")
    own = {found[1] for path in listed if (found := _PACKAGE.fullmatch(path))}
    files = {found[1] for path in listed if (found := _RUBY.fullmatch(path))}
    modules = {"".join(map(str.capitalize, name.split("_"))) for name in files}
    for path in islice(filter(_MANIFEST.fullmatch, listed), MAX_MANIFESTS):
        text = decode_text(await contents.read(listed[path]))
        modules.update(_NAMESPACE.findall(text))
        for _, name in _NAMED.findall(text):
            own |= {name, *name.split("/")}
    return modules.union(files, map(str.casefold, own))


def for_model(
    state: ReviewState, spec: AgentSpec, names: Collection[str] | None = None
) -> AgentSpec:
    """An agent with the skills that its model is shown; offline as it is.

    A playbook is left out if none of the agent's files, or none of their changed lines, is what it
    is for, and its analyzers have found nothing in them. If none would remain, all do.

    Args:
        names: of its files; None: its playbooks are not about files.
    """
    if not state.runtime.opening:
        return spec
    skills = state.given.catalog.skills
    ours = {*ANALYZERS, *LEAD_TOOLS}
    offered = {name for name in spec.tools if name not in ours and find_tool(state, spec, name)}
    known = {*TOOLS, *spec.tools}
    found = set[str]() if names is None else _tools_with_findings(state, names)
    wanted = [
        skill
        for skill in spec.skills
        if names is None
        or _concerns(state, skill.scope, names)
        or not found.isdisjoint(skills[skill.name].tools)
    ]
    playbooks = [
        skill
        if skill.scope.topics
        else replace(skill, text=keep_judgment(skills[skill.name].text, offered, known))
        for skill in wanted or spec.skills
    ]
    shown = (*_say_once(playbooks), *state.packs.get(spec.name, ()))
    return replace(spec, prompt=drop_mentions(spec.prompt, known - offered), skills=shown)


def _concerns(state: ReviewState, scope: SkillScope, names: Collection[str]) -> bool:
    """Whether a playbook is for one of these files, and for what changed in them."""
    if scope.files and not any(matches(name, scope.files) for name in names):
        return False
    files, finds = state.given.workspace.files, word_finder(scope.words)
    return not scope.words or any(
        finds("\n".join([files[path].status, path, *(text for _, text in changed_lines(part))]))
        for path, part in (state.diffs or {}).items()
        if path in names and kind_of(path) not in {"test", "docs"}
    )


def _say_once(playbooks: Iterable[Skill]) -> Iterator[Skill]:
    """The playbooks without what code checks and an earlier one says as well."""
    seen = set[str]()
    for skill in playbooks:
        text, heading, checks = skill.text.partition(CHECKED)
        new = [line for line in checks.splitlines() if line and line not in seen]
        seen.update(new)
        yield replace(skill, text="\n".join([text + heading, "", *new]) if new else text.rstrip())


def _tools_with_findings(state: ReviewState, names: Collection[str]) -> set[str]:
    """The analyzers that have found something in these files."""
    return {
        call.tool
        for call in state.calls()
        if any(finding.path in names for finding in call.result.findings)
    }
