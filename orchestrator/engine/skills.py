"""Progressive disclosure of skills: a model sees their descriptions and opens what it needs."""

from collections.abc import Mapping, Sequence

from orchestrator.engine.ports import CallContext
from orchestrator.engine.tool_registry import NAVIGATION
from orchestrator.engine.types import Json, Observation, Skill, ToolSpec

USE_SKILL = "use_skill"


class UseSkill:
    """The tool by which a model opens and closes its agent's skills; it has no other effect."""

    spec = ToolSpec(
        USE_SKILL,
        "Opens one of your skills: its playbook is then shown below the conversation, "
        "instead of the open one. Without a name it closes the open one.",
        {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "one of your skills"}},
            "additionalProperties": False,
        },
        tags=frozenset({NAVIGATION}),
    )

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Return which skill is open; ``data["skill"]`` is its name, None for none."""
        name, names = arguments.get("name"), [skill.name for skill in context.skills]
        if name is None:
            return Observation("no skill is open", {"skill": None})
        if name not in names:
            known = ", ".join(names) or "none"
            return Observation(f"you have no skill {name!r}; you have {known}", ok=False)
        return Observation(f"{name} is open; its playbook is shown below", {"skill": name})


def listing(skills: Sequence[Skill]) -> str:
    """The list of an agent's skills in the system prompt."""
    lines = "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)
    return (
        f"# Skills\n\nPlaybooks for parts of your work. Open one with {USE_SKILL} before "
        "you begin that part. It is shown below the conversation until you open another "
        f"one, close it, or report.\n\n{lines}"
    )


def titled(skill: Skill) -> str:
    """The text of an open skill for a model."""
    return f"# Skill: {skill.name}\n\n{skill.text}"
