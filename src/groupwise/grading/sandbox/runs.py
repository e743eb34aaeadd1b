"""What a run in a sandbox is given and how it ended: options, limits, calls, outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from groupwise.options import NonNegativeInt, Options, PositiveFloat, PositiveInt

Ending = Literal["exited", "timeout", "output_limit", "killed", "failed"]
CallStatus = Literal["returned", "foreign", "raised", "missing"]


class SandboxOptions(Options):
    """Where and within what limits programs of the model run."""

    backend: Literal["auto", "bubblewrap", "nsjail", "sandlock", "none"] = "auto"
    """`auto` takes the first that holds on this machine: bubblewrap, sandlock, nsjail. `none` runs programs of the
    model with nothing but resource limits: they can read, write and connect as you can."""

    wall_seconds: PositiveFloat = 5.0
    """Of one run of a program."""

    cpu_seconds: PositiveFloat = 4.0

    memory_mb: Annotated[int, Field(ge=32)] = 512

    processes: PositiveInt = 16

    output_kb: PositiveInt = 1024
    """Of standard output and of standard error, each."""

    disk_mb: PositiveInt = 64
    """Of the temporary file system, which is the only place to write to."""

    packages: list[str] = []
    """Installed packages that programs may import, such as `numpy`; none else can be seen. Each takes memory."""

    parallel: NonNegativeInt = 0
    """Programs that run at one time; 0 for one on each core."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use; None is no limit.

    memory_mb: address space of each process, and where a memory cgroup can be made also all of the run together.
    output_kb: of standard output, and of standard error. Standard output beyond it ends the run; of standard error the
    last part is kept, and sixteen times as much ends the run. disk_mb: of all writable files together.
    """

    wall_seconds: float | None = 5.0
    cpu_seconds: float | None = 4.0
    memory_mb: int = 512
    processes: int = 16
    output_kb: int = 1024
    disk_mb: int = 64
    open_files: int = 64

    @classmethod
    def of(cls, options: SandboxOptions) -> "Limits":
        """The limits that the options name."""
        return cls(**options.model_dump(exclude={"backend", "parallel", "packages"}))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended and what it wrote.

    status: `exited` by itself, with `exit_code`; `killed` by the signal `signal`, its own or that of a limit; `timeout`
    at the wall clock; `output_limit`; `failed`: the sandbox could not start it, which says nothing about the program.
    stderr: the last part. detail: for people.
    """

    status: Ending
    exit_code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    detail: str = ""

    @property
    def succeeded(self) -> bool:
        """Ended by itself with exit code 0."""
        return self.status == "exited" and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments of one call of a function: None, numbers, strings, bytes, and lists, tuples, sets and dicts of them.

    sources: expressions that are evaluated inside, by the position of the argument that they are. steps: what is done
    with what the call returned, each as (name, None or arguments, keyword arguments, whether on the object itself).
    """

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[int, str] = field(default_factory=dict)
    steps: Sequence[tuple[str, Sequence[Any] | None, Mapping[str, Any], bool]] = ()


@dataclass(frozen=True, slots=True)
class CallResult:
    """What one call gave.

    status: `returned`, with `value` made of exact builtins (`type(value) is int`, not a subclass); `foreign`: it
    returned something else, named in `detail`; `raised`, with the exception in `detail`; `missing`: the process ended
    before this call returned.
    """

    status: CallStatus
    value: Any = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CallRun:
    """The results of all calls, one for each, and how the process that made them ended.

    load_error: why the program could not be loaded or has no such function; empty where it could.
    """

    results: tuple[CallResult, ...]
    outcome: Outcome
    load_error: str = ""
