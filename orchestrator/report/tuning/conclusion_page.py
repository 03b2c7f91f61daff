"""A page that says first, in a plain sentence, whether a rubric can be trusted."""

from collections.abc import Sequence

from msgspec import Struct

from orchestrator.report.figure_pages import PageSection, render_document
from orchestrator.report.html_elements import text
from orchestrator.tuning.labels.disagreements import name_trust


class Conclusion(Struct, frozen=True):
    """What a page says first, for a reader who knows no statistics.

    Attributes:
        trusted: None where the labels cannot tell.
        sentence: why, without a statistic's name.
        reasons: the same with figures, a sentence each.
    """

    trusted: bool | None
    sentence: str
    reasons: Sequence[str] = ()


def render_page(title: str, conclusion: Conclusion, sections: Sequence[PageSection]) -> str:
    """A page that begins with a conclusion, ending in a newline."""
    word = name_trust(conclusion.trusted)
    reasons = "".join(f'<p class="soft">{text(_end(line))}</p>' for line in conclusion.reasons)
    kind = word.lower().replace(" ", "-")
    head = (
        f'<p class="small soft">{text(title)}</p><h1 class="{kind}">{word}</h1>'
        f'<p class="lead">{text(conclusion.sentence)}</p>{reasons}'
    )
    return render_document(f"{word}: {title}", head, sections)


def _end(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:] + ("" if sentence.endswith(".") else ".")
