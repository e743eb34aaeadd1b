"""What every section of the options is made of."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]

SaveDtype = Literal["stored", "float32", "bfloat16"]


def seconds_of(duration: str) -> int:
    """Seconds of `3h30m`, `45m` or `90s`; 0 of the empty text. Raises ValueError for anything else."""
    parts = re.fullmatch(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", duration)
    if parts is None:
        raise ValueError(f"{duration!r} is not a duration such as 3h30m, 45m or 90s")
    return sum(int(count or 0) * unit for count, unit in zip(parts.groups(), (86400, 3600, 60, 1), strict=True))


def _duration(text: str) -> str:
    if text and seconds_of(text) == 0:
        raise ValueError(f"{text!r} is no time at all; leave it empty for no limit")
    return text


Duration = Annotated[str, AfterValidator(_duration)]


class Options(BaseModel):
    """Base of every section: unknown keys, wrong types and non-finite numbers are errors, values cannot change."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
