"""What a call in a worker process comes to."""

from dataclasses import dataclass
from typing import Any

# Anything that JSON can hold. Its exact recursive type would only make callers cast.
JSON = Any


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call has no value.

    kind: `timeout` (killed at the deadline), `raised`, `memory` (the limit on address space), `died` (the process ended
    by itself: exit, signal, crash), `bad_value` (not JSON), `not_started` (the target could not be loaded), `closed`
    (the pool was closed meanwhile), `broken` (the pool itself failed), or a kind that the target names itself: the
    attribute `failure_kind` of what it raises, with `failure_data` as data. output: the end of what the call printed.
    """

    kind: str
    message: str
    output: str = ""
    data: JSON = None


@dataclass(frozen=True, slots=True)
class Result:
    """`value` where `failure` is None. `attempts` counts the tries, `seconds` is the time of the last one."""

    value: JSON = None
    failure: Failure | None = None
    attempts: int = 1
    seconds: float = 0.0
