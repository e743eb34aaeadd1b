"""Joins the processes that a launcher such as torchrun started for one run."""

import atexit
import os
from collections.abc import Mapping
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from groupwise.errors import UsageError
from groupwise.ranks import Ranks, connect

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

# So long the ranks wait for each other at the start; machines come up at different times.
START_SECONDS = 900

# The waits of `ranks` have a deadline that the options of the run set; this one only has to be longer.
NEVER = timedelta(days=30)


def join() -> Ranks:
    """Make the process group that the launcher's variables describe, once; without them this is one process.

    Numbers on a CPU go through gloo. Where the machine has an accelerator, those on it go through its own library.

    Raises:
        UsageError: if the launcher's variables are incomplete or no numbers, or the ranks do not find each other.
    """
    launched = launched_as(os.environ)
    if launched is None or dist.is_initialized():
        return Ranks.current()
    rank, size = launched
    backend = "gloo"
    if torch.accelerator.is_available() and (device := torch.accelerator.current_accelerator()) is not None:
        # A rank without a device of its own is refused later, unless the model is to be on the CPU.
        if (local := _number(os.environ, "LOCAL_RANK")) < torch.accelerator.device_count():
            torch.accelerator.set_device_index(local)
        backend = f"cpu:gloo,{device.type}:{dist.get_default_backend_for_device(device)}"
    store = store_of(os.environ, rank, size)
    try:
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=NEVER)
    except RuntimeError as error:
        raise UsageError(f"rank {rank} of {size} does not reach the others: {error}") from error
    atexit.register(_leave)
    connect(PrefixStore("places", store))
    return Ranks.current()


def launched_as(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Rank and number of processes by the launcher's variables; None for one process.

    Raises:
        UsageError: if some are there and others are missing, or if they are no such numbers.
    """
    if environ.get("WORLD_SIZE", "1") == "1" and environ.get("RANK", "0") == "0":
        return None
    missing = [name for name in VARIABLES if not environ.get(name)]
    if missing:
        there = ", ".join(f"{name}={environ[name]}" for name in VARIABLES if environ.get(name))
        raise UsageError(
            f"the launcher did not set {', '.join(missing)}, but {there}: start the run by torchrun, which sets "
            f"{', '.join(VARIABLES)}, or remove these variables for one process"
        )
    rank, size = _number(environ, "RANK"), _number(environ, "WORLD_SIZE")
    if not 0 <= rank < size:
        raise UsageError(f"RANK={rank} is not among the processes 0 to {size - 1} of WORLD_SIZE={size}")
    return rank, size


def store_of(environ: Mapping[str, str], rank: int, size: int) -> Store:
    """Where the ranks find each other. What an earlier start of torchrun's left there is not seen.

    Raises:
        UsageError: if it is not reached.
    """
    try:
        store, _, _ = next(iter(rendezvous("env://", rank, size, timeout=timedelta(seconds=START_SECONDS))))
    except (RuntimeError, ValueError) as error:
        address = f"{environ['MASTER_ADDR']}:{environ['MASTER_PORT']}"
        raise UsageError(f"rank {rank} of {size} does not reach the others at {address}: {error}") from error
    return PrefixStore(f"groupwise/{environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    if not text.isdecimal():
        raise UsageError(f"{name}={text!r} is no number: start the run by torchrun, which sets it")
    return int(text)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
