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
from orchestrator.code_review.agents.changed_functions import changed_code
from orchestrator.code_review.agents.effort_tiers import changed_lines
from orchestrator.code_review.agents.reviewer_assignment import diffs_by_path
from orchestrator.code_review.agents.uncalled_analyzers import find_tool
from orchestrator.code_review.change.contents import split_lines
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.lead_tools import kind_of
from orchestrator.code_review.tools.registry import ANALYZERS, TOOLS
from orchestrator.data_directories import read_table
from orchestrator.engine.types import AgentSpec, Skill, SkillScope

MAX_PACKS = 3
"""Knowledge packs of one agent."""
MAX_MANIFESTS = 50
"""That are read to tell which packages base defines."""
_TEXTS = {name: re.compile(text) for name, text in read_table(__file__, "packs.yaml").items()}
_PART = re.compile(r"\w+")
_WORDS = _TEXTS["words"]
LEAD_TOOLS = ("propose_plan",)
"""What they answer is in the lead's first message where a model leads."""


class _Text(Struct, frozen=True):
    """A changed file.

    Attributes:
        near, imports: its hunks with the functions that they change; its lines that import.
        parts: of the words of both texts.
        own: packages that base defines.
    """

    path: str
    text: str
    near: str
    imports: str
    parts: frozenset[str]
    changed_lines: int
    own: Set[str]

    def has(self, words: Collection[str], text: str) -> bool:
        """Whether one of these words is in a text and names no package of base, or there are none.

        A word such as ``.tf`` is the ending of the file's path, one such as ``/app/`` a part.
        """
        return not words or any(
            self.path.endswith(word)
            if word.startswith(".")
            else word in f"/{self.path}"
            if word.startswith("/")
            else self.parts.issuperset(_PART.findall(word))  # which takes less time
            and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)
            for word in words
            if self.own.isdisjoint({word, re.split(r"[.(]", word)[0]})
        )

    def concerns(self, item: str) -> bool:
        """Whether it has one of each line of words of a pack's item."""
        texts = {"Words": self.text, "Imports": self.imports, "Calls": self.near}
        return all(self.has(words.split(), texts[kind]) for kind, words in _WORDS.findall(item))


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
    diffs, own = await diffs_by_path(state), await _own_packages(state)
    patterns = [one for pack in packs for one in pack.scope.files]
    for file in workspace.change.files:
        blob, changed = file.new_blob or file.old_blob, len(file.added) + len(file.removed)
        chooses = matches(file.path, patterns) and kind_of(file.path) != "test"
        if blob and changed and chooses and not workspace.left_out(file):
            text = decode_text(await workspace.contents.read(blob))
            near = "\n".join(changed_code(split_lines(text), diffs[file.path]))
            imports = "\n".join(_TEXTS["imports"].findall(text))
            parts = frozenset(_PART.findall(f"{text}\n{near}"))
            found[file.path] = _Text(file.path, text, near, imports, parts, changed, own)
    return found


def _cut(pack: Skill, files: Mapping[str, _Text]) -> tuple[int, Skill] | None:
    """A pack with the items for these files, and their changed lines; None: it is for none.

    An item, and what is above the first, may have lines of words; then one of the files must have
    one of each.
    """
    scope, own = pack.scope, [one for path, one in files.items() if matches(path, pack.scope.files)]
    title, *items = _TEXTS["item"].split(pack.text)
    having = [one for one in own if one.has(scope.words, one.text) and one.concerns(title)]
    kept = [_WORDS.sub("", item) for item in items if any(one.concerns(item) for one in having)]
    if not having or (items and not kept):
        return None
    lines = sum(text.changed_lines for text in having)
    return lines, replace(pack, text="".join([_WORDS.sub("", title), *kept]).rstrip())


async def _own_packages(state: ReviewState) -> Set[str]:
    """The packages that base defines: a pack is for those who import one, not for its authors."""
    contents = state.given.workspace.contents
    listed = await contents.regular("base")
    own = {found[1] for path in listed if (found := _TEXTS["package"].fullmatch(path))}
    files = {found[1] for path in listed if (found := _TEXTS["ruby"].fullmatch(path))}
    modules = {"".join(map(str.capitalize, name.split("_"))) for name in files}
    for path in islice(filter(_TEXTS["manifest"].fullmatch, listed), MAX_MANIFESTS):
        text = decode_text(await contents.read(listed[path]))
        modules.update(_TEXTS["namespace"].findall(text))
        for _, name in _TEXTS["named"].findall(text):
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
    found = set[str]()  # the analyzers that have found something in these files
    if names is not None:
        results = ((call.tool, one.path) for call in state.calls() for one in call.result.findings)
        found = {tool for tool, path in results if path in names}
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
