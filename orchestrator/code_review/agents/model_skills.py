"""What an agent's model is shown of skills: playbooks for its files, and knowledge packs.

Playbooks are cut to what a model judges by. Code chooses the packs from what changed: base says
which files each is for, and the text of a change decides nothing else.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from msgspec.structs import replace

from diffchecks.check_io import decode_text
from diffchecks.file_patterns import matches
from diffchecks.jobs import ChangedFile
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
_MANIFEST = re.compile(
    r"(?:[^/]+/){0,2}(?:package\.json|(?:Cargo|pyproject)\.toml|go\.mod|setup\.\w+)"
)
_NAMED = re.compile(r"""(?m)^[ \t]*(?:"?name"?\s*[=:]\s*|module\s+)(["']?)([\w@./-]+)\1,?\s*$""")
LEAD_TOOLS = ("propose_plan",)
"""What they answer is in the lead's first message where code assigns the files."""


async def choose_packs(state: ReviewState) -> None:
    """Give each examining agent the packs that cover most changed lines of its files."""
    assignment, skills = state.assignment, state.given.catalog.skills
    if assignment is None or assignment.tier == "trivial":  # that is read without any skill
        return
    packs = [skill for skill in skills.values() if skill.scope.topics]
    lines: dict[str, Counter[str]] = {pack.name: Counter() for pack in packs}
    own_packages = await _own_packages(state)
    for file in state.given.workspace.change.files:
        for pack in await _packs_of(state, file, packs, own_packages):
            lines[pack.name][file.path] = len(file.added) + len(file.removed)
    own = {share.agent: share.paths for share in assignment.shares}
    chosen: dict[str, tuple[str, ...]] = {}
    for name in state.examiners:
        own_skills = state.agent(name).skills
        topics = {topic for skill in own_skills for topic in skill.requires.categories}
        listed = {skill.name for skill in own_skills}
        covered = {
            pack.name: sum(lines[pack.name][path] for path in own.get(name, lines[pack.name]))
            for pack in packs
            if pack.name not in listed and (not topics or topics.intersection(pack.scope.topics))
        }
        ranked = sorted(filter(covered.get, covered), key=lambda pack: (-covered[pack], pack))
        if ranked:
            chosen[name] = tuple(ranked[:MAX_PACKS])
    state.assignment = replace(assignment, packs=chosen)


async def _own_packages(state: ReviewState) -> Collection[str]:
    """The packages that base defines: a pack is for those who import one, not for its authors."""
    contents = state.given.workspace.contents
    listed = await contents.regular("base")
    own = {found[1] for path in listed if (found := _PACKAGE.fullmatch(path))}
    for path in islice(filter(_MANIFEST.fullmatch, listed), MAX_MANIFESTS):
        for _, name in _NAMED.findall(decode_text(await contents.read(listed[path]))):
            own |= {name, *name.split("/")}
    return {name.casefold() for name in own}


async def _packs_of(
    state: ReviewState, file: ChangedFile, packs: Iterable[Skill], own: Collection[str]
) -> Collection[Skill]:
    """The packs for a file, by its name and, where that does not tell, by words in its text."""
    workspace, blob = state.given.workspace, file.new_blob or file.old_blob
    named = [pack for pack in packs if matches(file.path, pack.scope.files)]
    if not (named and blob and (file.added or file.removed)) or workspace.left_out(file):
        return ()
    if not any(pack.scope.words for pack in named):
        return named
    text = decode_text(await workspace.contents.read(blob))
    words = {
        pack.name: [w for w in pack.scope.words if not {w, re.split(r"[.(]", w)[0]} & {*own}]
        for pack in named
    }
    return [
        pack
        for pack in named
        if not pack.scope.words
        or any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words[pack.name])
    ]


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
    ours = {*ANALYZERS, *(LEAD_TOOLS if state.shares else ())}
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
    packs = state.assignment.packs.get(spec.name, ()) if state.assignment else ()
    playbooks = [
        skill
        if skill.scope.topics
        else replace(skill, text=keep_judgment(skills[skill.name].text, offered, known))
        for skill in wanted or spec.skills
    ]
    shown = (*_say_once(playbooks), *(skills[name] for name in packs))
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
