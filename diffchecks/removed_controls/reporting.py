"""Builds the findings about removed controls."""

from collections.abc import Sequence

from diffchecks.check_io import RawFinding
from diffchecks.removed_controls.control import Control, ControlledFile
from diffchecks.removed_controls.lost_wrapping import tell_other_lines

POSSIBLE_LOSS = "possible-loss"
"""The code for controls that ordinary commits remove more often than security fixes add them."""

SHOWN = 90  # characters of a control in a message


def as_finding(
    file: ControlledFile, code: str, places: Sequence[tuple[Control, str, float]]
) -> RawFinding:
    """A finding at the first place that names the other places."""
    control, says, confidence = places[0]
    line = file.place(control)
    also = tell_other_lines({file.place(other) for other, _, _ in places[1:]} - {line})
    message = f"{says}: {shorten(control.text)}{also}"
    return RawFinding(
        code,
        file.path,
        line,
        message,
        confidence=confidence,
        removed_path=file.old_path,
        removed_line=control.line,
    )


def shorten(text: str) -> str:
    """A control's text in one line of bounded length."""
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
