"""Worker processes inside a sandbox: the same pool, the same failures."""

import os
import time

import pytest

from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.grading.workers import WorkerPool
from groupwise.grading.workers.sandboxed import launch_in


def pool(sandbox: Sandbox, timeout_seconds: float = 10.0) -> WorkerPool:
    """Of an evaluator, made from text, so that it needs no file inside."""
    return WorkerPool(
        "builtins:eval",
        init="lambda text: eval(text)",
        workers=1,
        timeout_seconds=timeout_seconds,
        memory_mb=0,
        launch=launch_in(sandbox, memory_mb=512),
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1/0", "raised"),
        ("__import__('os')._exit(3)", "died"),
        ("__import__('ctypes').string_at(0)", "died"),
        ("len(bytearray(2**32))", "memory"),
        ("float('nan')", "bad_value"),
        ("object()", "bad_value"),
    ],
)
def test_kinds_of_failure(sandbox: Sandbox, text: str, kind: str) -> None:
    with pool(sandbox) as workers:
        failure = workers.submit(text).result().failure
        assert failure is not None
        assert failure.kind == kind
        assert workers.submit("6 * 7").result().value == 42


def test_timeout(sandbox: Sandbox) -> None:
    with pool(sandbox, timeout_seconds=0.5) as workers:
        workers.submit("1").result()
        began = time.monotonic()
        failure = workers.submit("[0 for _ in iter(int, 1)]").result().failure
        assert failure is not None
        assert failure.kind in ("timeout", "memory")
        assert time.monotonic() - began < 5
        assert workers.submit("6 * 7").result().value == 42


def test_forked_processes_end_with_the_call(sandbox: Sandbox) -> None:
    with pool(sandbox, timeout_seconds=1.0) as workers:
        fork = "[__import__('os').fork() or __import__('time').sleep(600), __import__('time').sleep(600)]"
        failure = workers.submit(fork).result().failure
        assert failure is not None
        assert failure.kind == "timeout"
        assert workers.submit("6 * 7").result().value == 42


def test_nothing_is_left(sandbox: Sandbox) -> None:
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pool(sandbox) as workers:
            assert workers.submit("6 * 7").result().value == 42
            workers.submit("__import__('time').sleep(600)")
    assert set(os.listdir("/proc/self/fd")) == before
