"""Field types that the data files share."""

from datetime import date
from typing import Annotated

from pydantic import AfterValidator, Field


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError("is no day; write it as 2027-06-30") from None


Words = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(gt=0)]
Unit = Annotated[float, Field(ge=0, le=1)]
Day = Annotated[str, AfterValidator(_day)]
