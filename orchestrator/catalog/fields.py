"""Field types that the data files share."""

from typing import Annotated

from pydantic import Field

Words = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(gt=0)]
Unit = Annotated[float, Field(ge=0, le=1)]
