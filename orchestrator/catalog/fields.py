"""Field types that the data files share."""

from datetime import date
from typing import Annotated

from msgspec import Meta

Words = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(gt=0)]
Unit = Annotated[float, Meta(ge=0, le=1)]
Day = date
"""Written as 2027-06-30."""
