"""Cases of the sandbox: programs that keep within a limit or not."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from groupwise.config import TrainConfig
from groupwise.errors import DataError
from groupwise.grading.sandbox import open as opening
from groupwise.grading.sandbox.backend import UnavailableError
from groupwise.grading.sandbox.runs import SandboxOptions
from groupwise.grading.sandbox.sandbox import Sandbox
from tests.options.case import ByHand
from tests.options.graded import code_task, component, graded, graded_case

PASSED = component("correctness")


def within(by_hand: dict[str, list[float]], program: str, *base: str, output: str = "ok") -> ByHand:
    """Whether a program that needs something passes its test."""
    return graded_case(by_hand, PASSED, code_task([("", output)], program), base=base, slow=True)


def name_of(config: TrainConfig) -> str:
    try:
        with opening.open_sandbox(config.sandbox) as sandbox:
            return sandbox.name
    except DataError:
        return "refused"


def unavailable() -> Any:
    raise UnavailableError("not here")


def where_programs_run(config: TrainConfig) -> list[str]:
    """The sandbox on this machine, and on one without bubblewrap; `next` is the next one of those that work here.

    A fall-back that is named and does not work here has to be refused, which then stands for it: sandlock needs
    Linux 6.7, and does not find its package where that lies in a temporary folder.
    """
    seen = [name_of(config)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(opening.BACKENDS, "bubblewrap", unavailable)
        seen.append(name_of(config))
    working = [name for name in ("sandlock", "nsjail") if works(name)]
    backend = config.sandbox.backend
    if backend == "auto":
        return [seen[0], "next" if seen[1] == [*working, "refused"][0] else seen[1]]
    if backend in ("sandlock", "nsjail") and backend not in working:
        return [backend if name == "refused" else name for name in seen]
    return seen


def works(name: str) -> bool:
    try:
        opening.open_backend(name, SandboxOptions()).close()
    except UnavailableError:
        return False
    return True


@contextmanager
def counted_runs() -> Iterator[list[int]]:
    """How many programs ran at each start of one, that one included."""
    lock, running, seen = threading.Lock(), [0], []
    original = Sandbox.run_program

    def counted(*arguments: Any, **named: Any) -> Any:
        with lock:
            running[0] += 1
            seen.append(running[0])
        try:
            return original(*arguments, **named)
        finally:
            with lock:
                running[0] -= 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sandbox, "run_program", counted)
        yield seen


def programs_at_one_time(config: TrainConfig) -> int:
    with counted_runs() as seen:
        graded(config, [code_task([("", "ok")], *["import time; time.sleep(0.5); print('ok')"] * 4)])
    return max(seen)


FORKS = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
print("ok")
"""
WRITES = """
with open("file", "wb") as file:
    file.write(bytes(5 * 2**20))
print("ok")
"""
BUSY = "import time\nwhile time.process_time() < 1.5:\n    pass\nprint('ok')"

SANDBOX: dict[str, ByHand] = {
    "sandbox.backend": ByHand(
        {
            "auto": ["bubblewrap", "next"],
            "bubblewrap": ["bubblewrap", "refused"],
            "nsjail": ["nsjail", "nsjail"],
            "sandlock": ["sandlock", "sandlock"],
            "none": ["none", "none"],
        },
        where_programs_run,
        slow=True,
    ),
    "sandbox.wall_seconds": within({"0.5": [0.0], "20.0": [1.0]}, "import time; time.sleep(1); print('ok')"),
    "sandbox.cpu_seconds": within({"1.0": [0.0], "20.0": [1.0]}, BUSY, "sandbox.wall_seconds=30.0"),
    "sandbox.memory_mb": within({"64": [0.0], "512": [1.0]}, "bytearray(200 * 2**20); print('ok')"),
    "sandbox.processes": within({"4": [0.0], "16": [1.0]}, FORKS),
    "sandbox.output_kb": within({"10": [0.0], "100": [1.0]}, "print('a' * 50_000)", output="a" * 50_000),
    "sandbox.disk_mb": within({"1": [0.0], "64": [1.0]}, WRITES),
    "sandbox.packages": within({"[]": [0.0], "[numpy]": [1.0]}, "import numpy; print('ok')"),
    "sandbox.parallel": ByHand({"1": 1, "2": 2}, programs_at_one_time, slow=True),
}
