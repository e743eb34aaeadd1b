"""The processes that train together. One process alone needs no process group.

Before every collective the ranks meet: each says whether it can take part. A rank that was asked to stop, or that
failed, says so there, and all the others leave at the same place. So no rank waits for one that will not come, and all
that happens in a run happens on all ranks or on none.
"""

import json
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from groupwise.errors import GroupwiseError
from groupwise.stopping import follow, now, unbroken

T = TypeVar("T")

DEADLINE_SECONDS = 1800.0

# How often a rank that waits for others lets Python see the signals that came in.
LOOK_SECONDS = 0.5


class RankError(GroupwiseError):
    """Another rank failed, or is gone; the message names it and says what it was doing."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass
class Link:
    """What a process keeps of its connection to the others.

    store: where each rank notes where it is; None for a process group of the caller's own. is_over: nothing is sent any
    more, since this rank told the others that it leaves, heard that one does, or lost one. meetings: how many it came
    to. told: whether the others know why this one leaves.
    """

    store: Store | None = None
    deadline_seconds: float = DEADLINE_SECONDS
    is_over: bool = False
    told: bool = False
    meetings: int = 0
    work: str = "the start"


_link = Link()


def connect(store: Store) -> None:
    """Note where this rank is in this store from now on."""
    _link.store = store


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together; collectives are the identity for one process.

    rank: of this process, from 0. size: number of processes. group: whose they are, None for that of all.
    """

    rank: int = 0
    size: int = 1
    link: Link = field(default_factory=Link, compare=False, repr=False)
    deadline_seconds: float = field(default=DEADLINE_SECONDS, compare=False, repr=False)
    group: dist.ProcessGroup | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def current() -> "Ranks":
        """Those of the initialised process group, or one process."""
        if dist.is_available() and dist.is_initialized():
            return Ranks(dist.get_rank(), dist.get_world_size(), _link, _link.deadline_seconds)
        return Ranks()

    def waiting(self, seconds: float) -> "Ranks":
        """The same, which wait for each other so long from now on."""
        self.link.deadline_seconds = seconds
        return replace(self, deadline_seconds=seconds)

    def share(self, items: Sequence[T]) -> list[T]:
        """The items that this process works on: every size-th one."""
        return list(items[self.rank :: self.size])

    def sum(self, values: list[float]) -> list[float]:
        """Element-wise sum over all processes, in float64."""
        if self.size == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64)
        self._meet("a sum of numbers")
        self._wait(lambda: dist.all_reduce(total, group=self.group, async_op=True))
        return [float(value) for value in total]

    def sum_gradients(self, gradients: list[Tensor]) -> None:
        """Sum gradients over all processes, in place."""
        if self.size == 1:
            return
        self._meet("the sum of the gradients")
        for gradient in gradients:
            self._wait(partial(dist.all_reduce, gradient, group=self.group, async_op=True))

    def gather(self, value: T, what: str = "a gathering of records") -> list[T]:
        """What every process passed, in the order of the ranks. The value has to survive JSON: nothing is pickled."""
        if self.size == 1:
            return [value]
        return [json.loads(part) for part in self.gather_bytes(json.dumps(value).encode(), what)]

    def gather_bytes(self, own: bytes, what: str = "a gathering of bytes") -> list[bytes]:
        """What every process passed, in the order of the ranks."""
        if self.size == 1:
            return [own]
        own_N = torch.frombuffer(bytearray(own), dtype=torch.uint8) if own else torch.zeros(0, dtype=torch.uint8)
        return [part.numpy().tobytes() for part in self._gather_rows(own_N, what)]

    def first(self, make: Callable[[], T], what: str) -> T:
        """What the first rank makes, on all of them; it has to survive JSON."""
        if self.size == 1:
            return make()
        value = json.dumps(make() if self.rank == 0 else None).encode()
        made: T = json.loads(self.gather_bytes(value, what)[0])
        return made

    def meet(self, what: str) -> None:
        """Wait until all have come to this place."""
        if self.size > 1:
            self._meet(what)

    def on_this_machine(self) -> int:
        """How many of the processes run on the machine of this one."""
        host = socket.gethostname()
        return self.gather(host, "a count of machines").count(host)

    def concatenate(self, own_N: Tensor) -> tuple[Tensor, slice]:
        """The rows of all processes end to end in the order of the ranks, and where those of this one are.

        The rows of several processes are float32, since one without rows does not know the precision of the others.
        """
        parts = [own_N] if self.size == 1 else self._gather_rows(own_N.float(), "a gathering of rows")
        start = sum(len(part) for part in parts[: self.rank])
        return torch.cat(parts), slice(start, start + len(own_N))

    def announce(self, error: BaseException, cause: int | str | None = None) -> None:
        """Tell the others, at the place that they come to next, that this rank leaves, and why.

        cause: of a stop that was asked for. Nothing is done where they know it, or cannot be told.
        """
        if self.size == 1 or self.link.is_over:
            return
        cause = int(cause) if isinstance(cause, int) else cause
        text = f"{type(error).__name__}: {error}" if not isinstance(error, GroupwiseError) else str(error)
        with suppress(RankError):
            self._exchange(_LEAVES, 0, "the end")
            self.link.is_over = True
            code = error.exit_code if isinstance(error, GroupwiseError) else 1
            self._send({"text": text, "exit_code": code, "cause": cause, "work": self.link.work})
            self.link.told = True

    def _meet(self, what: str, size: int = 0) -> list[int]:
        """Come to a place at which all ranks are; the sizes that they passed.

        Raises:
            RankError: if another rank leaves, or does not come.
        """
        now(what)
        headers = self._exchange(zlib.crc32(what.encode()), size, what)
        if any(mark == _LEAVES for mark, _ in headers):
            self.link.is_over = True
            left = [(rank, said) for rank, said in enumerate(self._send(None)) if said]
            self.link.told = True
            rank, said = left[0]
            if said["cause"] is not None:
                follow(said["cause"])
            raise RankError(f"rank {rank} of {self.size}, at {said['work']}: {said['text']}", said["exit_code"])
        if len({mark for mark, _ in headers}) > 1:
            self.link.is_over = True
            raise RankError(f"the ranks are at different places: {self._places()}; this is an error of groupwise")
        return [size for _, size in headers]

    def _exchange(self, mark: int, size: int, what: str) -> list[tuple[int, int]]:
        link = self.link
        if link.is_over:
            raise RankError("the ranks do not work together any more")
        link.meetings, link.work = link.meetings + 1, what if mark != _LEAVES else link.work
        if link.store is not None:
            with suppress(RuntimeError):
                link.store.set(f"at/{self.rank}", f"{link.meetings} {link.work}")
        own = torch.tensor([mark, size])
        headers = [torch.zeros_like(own) for _ in range(self.size)]
        self._wait(lambda: dist.all_gather(headers, own, self.group, async_op=True))
        return [(int(header[0]), int(header[1])) for header in headers]

    def _send(self, own: Any) -> list[Any]:
        """What every process passed; it has to survive JSON."""
        content = json.dumps(own).encode()
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        self._wait(lambda: dist.all_gather(sizes, torch.tensor([len(content)]), self.group, async_op=True))
        parts = self._gather_sized(torch.frombuffer(bytearray(content), dtype=torch.uint8), [int(s) for s in sizes])
        return [json.loads(part.numpy().tobytes()) for part in parts]

    def _gather_rows(self, own_N: Tensor, what: str) -> list[Tensor]:
        """The rows of each process, whose number may differ."""
        return self._gather_sized(own_N, self._meet(what, len(own_N)))

    def _gather_sized(self, own_N: Tensor, sizes: list[int]) -> list[Tensor]:
        padded_N = own_N.new_zeros(max(1, *sizes))
        padded_N[: len(own_N)] = own_N
        parts = [torch.zeros_like(padded_N) for _ in range(self.size)]
        self._wait(lambda: dist.all_gather(parts, padded_N, self.group, async_op=True))
        return [part_N[:size] for part_N, size in zip(parts, sizes, strict=True)]

    def _wait(self, start: Callable[[], dist.Work | None]) -> None:
        """Run a collective to its end.

        Raises:
            RankError: if a rank is gone, or does not come before the deadline.
        """
        until = time.monotonic() + self.deadline_seconds
        try:
            with unbroken():
                work = start()
                while work is not None and not _is_done(work):
                    if time.monotonic() > until:
                        raise TimeoutError
        except (RuntimeError, TimeoutError) as error:
            self.link.is_over = True
            late = isinstance(error, TimeoutError)
            within = f"within run.deadline_seconds={self.deadline_seconds:g}" if late else "and is gone"
            raise RankError(
                f"{self._missing()} did not come to {self.link.work} {within}. Where the ranks were: {self._places()}"
            ) from None
        except BaseException:
            # The others are in the middle of it: nothing that is sent now would be understood.
            self.link.is_over = True
            raise

    def _missing(self) -> str:
        own = self.link.meetings
        missing = [rank for rank, (count, _) in self._noted().items() if count < own]
        return " and ".join(f"rank {rank}" for rank in missing) or "a rank"

    def _places(self) -> str:
        return ", ".join(f"rank {rank} at {work}" for rank, (_, work) in self._noted().items()) or "unknown"

    def _noted(self) -> dict[int, tuple[int, str]]:
        """Where each rank was last, by its own note."""
        noted: dict[int, tuple[int, str]] = {}
        store = self.link.store
        # The process that keeps the notes may be the one that is gone.
        with suppress(RuntimeError):
            for rank in range(self.size if store is not None else 0):
                if store is not None and store.check([f"at/{rank}"]):
                    count, _, work = store.get(f"at/{rank}").decode().partition(" ")
                    noted[rank] = int(count), work
        return noted


_LEAVES = -1


def _is_done(work: dist.Work) -> bool:
    """Whether a collective ends within `LOOK_SECONDS`."""
    try:
        work.wait(timedelta(seconds=LOOK_SECONDS))
    except RuntimeError as error:
        if work.is_completed() or "timed out" not in str(error).lower():
            raise
        return False
    return True


@contextmanager
def announced(ranks: Ranks) -> Iterator[None]:
    """Whatever leaves the block as an exception is announced to the others."""
    try:
        yield
    except BaseException as error:
        ranks.announce(error)
        raise


@contextmanager
def together() -> Iterator[Ranks]:
    """The ranks of this process; whatever leaves the block as an exception is announced to them."""
    try:
        yield Ranks.current()
    except BaseException as error:
        Ranks.current().announce(error)
        raise
