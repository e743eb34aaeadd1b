"""Options of the sandbox that programs of a model run in."""

from typing import Annotated, Literal

from pydantic import Field

from groupwise.options import NonNegativeInt, Options, PositiveFloat, PositiveInt

Backend = Literal["bubblewrap", "nsjail", "sandlock", "none"]


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

    parallel: NonNegativeInt = 0
    """Programs that run at one time; 0 for one on each core."""
