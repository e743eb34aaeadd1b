"""Worker processes: what every kind of misbehaviour comes to, and that nothing is left of it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from groupwise.grading.workers import LocalProcess, WorkerPool

HERE = str(Path(__file__).parent)


def pool(target: str = "misbehave", **options: Any) -> WorkerPool:
    settings = {"workers": 1, "timeout_seconds": 20.0, "memory_mb": 256, "paths": [HERE], **options}
    return WorkerPool(f"targets:{target}", **settings)


@pytest.fixture(scope="module")
def shared() -> Iterator[WorkerPool]:
    with pool() as workers:
        yield workers


def children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def running(argument: str) -> list[str]:
    """Processes that have this argument."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if argument.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def gone(argument: str) -> bool:
    """Whether all such processes end within two seconds."""
    for _ in range(40):
        if not running(argument):
            return True
        time.sleep(0.05)
    return False


def test_value_and_init() -> None:
    with pool("echo", init={"a": 1}) as workers:
        init, payload, pid = workers.submit(["ünï", None]).result().value
        assert (init, payload) == ({"a": 1}, ["ünï", None])
        assert pid != os.getpid()
        assert workers.submit(0).result().value[2] == pid


@pytest.mark.parametrize(
    ("action", "argument", "kind", "message"),
    [
        ("raise", None, "raised", "KeyError: 'price' ("),
        ("named", None, "named", "as it wants"),
        ("exit", 3, "raised", "SystemExit: 3"),
        ("_exit", 3, "died", "the process ended with exit status 3"),
        ("_exit", 0, "died", "the process ended with exit status 0"),
        ("segfault", None, "died", "the process was ended by SIGSEGV"),
        ("eat", None, "memory", "MemoryError"),
        ("recurse", 0, "raised", "RecursionError"),
        ("nan", None, "bad_value", "returned what JSON cannot hold: Out of range float"),
        ("object", None, "bad_value", "Object of type object"),
        ("close_everything", None, "died", "exit status"),
        ("garble", None, "bad_value", "something else wrote to the channel of replies"),
        ("big", 70_000_000, "bad_value", "at most 67108864"),
    ],
)
def test_kind_of_failure_and_pool_goes_on(
    shared: WorkerPool, action: str, argument: Any, kind: str, message: str
) -> None:
    result = shared.submit([action, argument]).result()
    assert result.failure is not None
    assert result.failure.kind == kind
    assert message in result.failure.message
    assert result.value is None
    assert shared.submit(["length", "abc"]).result().value == 3


@pytest.mark.parametrize("action", ["busy", "huge_power", "sleep"])
def test_timeout_kills(action: str) -> None:
    with pool(timeout_seconds=0.4) as workers:
        before = workers.submit(["session", None]).result().value
        began = time.monotonic()
        result = workers.submit([action, 600]).result()
        assert 0.4 <= time.monotonic() - began < 5
        assert result.failure is not None
        assert result.failure.kind == "timeout"
        assert result.failure.message == "did not return within 0.4 s and was killed"
        after = workers.submit(["session", None]).result().value
        assert before != after


def test_line_of_the_user_is_named(shared: WorkerPool) -> None:
    failure = shared.submit(["raise", None]).result().failure
    assert failure is not None
    source = (Path(HERE) / "targets.py").read_text().splitlines()
    line = 1 + source.index('    raise KeyError("price")')
    assert failure.message.endswith(f"({HERE}/targets.py:{line})")


def test_session_of_its_own(shared: WorkerPool) -> None:
    session, pid = shared.submit(["session", None]).result().value
    assert session == pid != os.getsid(0)


def test_prints_neither_disturb_nor_block(shared: WorkerPool) -> None:
    assert shared.submit(["print", 50_000]).result().value == "printed"
    assert shared.submit(["read_stdin", None]).result().value == ""


def test_end_of_the_output_is_part_of_the_failure(shared: WorkerPool) -> None:
    failure = shared.submit(["print_and_raise", None]).result().failure
    assert failure is not None
    assert failure.output == "look here"


def test_output_is_passed_on_up_to_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    with pool(output_bytes=100) as workers:
        workers.submit(["print", 1000]).result()
    shown = capsys.readouterr().err
    assert shown.startswith("out 0\nout 1\n")
    assert len(shown) < 200
    assert "further output of targets:misbehave is not shown" in shown


def test_fork_that_returns_answers_once(shared: WorkerPool) -> None:
    assert shared.submit(["fork", None]).result().value == "forked"
    assert shared.submit(["length", "abcd"]).result().value == 4


def test_descendants_end_with_a_timeout() -> None:
    name = f"sleeper-{os.getpid()}"
    with pool(timeout_seconds=1.0) as workers:
        future = workers.submit(["leave_sleepers", name])
        for _ in range(50):
            if len(running(name)) == 2:
                break
            time.sleep(0.05)
        else:
            pytest.fail("the sleepers did not start")
        assert future.result().failure is not None
    assert gone(name)


def test_session_ends_with_a_process_that_ended_itself(shared: WorkerPool) -> None:
    name = f"sleeper-of-{os.getpid()}"
    failure = shared.submit(["leave_group", name]).result().failure
    assert failure is not None
    assert failure.kind == "died"
    assert gone(name)


def test_death_between_calls_is_no_failure(shared: WorkerPool) -> None:
    first = shared.submit(["die_later", 0.1]).result().value
    time.sleep(0.4)
    result = shared.submit(["session", None]).result()
    assert result.failure is None
    assert result.value[1] != first


def test_large_payload(shared: WorkerPool) -> None:
    assert shared.submit(["length", "x" * 5_000_000]).result().value == 5_000_000


def test_retries(shared: WorkerPool) -> None:
    with pool(retries=2) as workers:
        assert workers.submit(["_exit", 1]).result().attempts == 3
        assert workers.submit(["length", ""]).result().attempts == 1
    assert shared.submit(["raise", None]).result().attempts == 1


def test_target_that_cannot_be_loaded() -> None:
    for target, message in (
        ("fails_to_load", "RuntimeError: no such model"),
        ("exits_while_loading", "while it was loaded, the process ended with exit status 7"),
        ("missing", "has no attribute 'missing'"),
    ):
        with pool(target) as workers:
            failure = workers.submit(1).result().failure
            assert failure is not None
            assert failure.kind == "not_started"
            assert message in failure.message


def test_loading_has_its_own_deadline() -> None:
    with pool("loads_slowly", init=1.0, timeout_seconds=0.5) as workers:
        assert workers.submit(5).result().value == 5
    with pool("loads_slowly", init=60, startup_seconds=0.3) as workers:
        failure = workers.submit(5).result().failure
        assert failure is not None
        assert failure.kind == "not_started"
        assert "loading it did not return within 0.3 s" in failure.message


def test_calls_overlap() -> None:
    with pool(workers=4, eager=True) as workers:
        wait([workers.submit(["sleep", 0.2]) for _ in range(4)])
        began = time.monotonic()
        results = [future.result() for future in [workers.submit(["sleep", 0.5]) for _ in range(8)]]
        took = time.monotonic() - began
        assert len({result.value for result in results}) == 4
        assert 1.0 <= took < 3.0  # One after the other they would take 4 s.


def test_waiting_does_not_count() -> None:
    with pool(timeout_seconds=1.0) as workers:
        results = [future.result() for future in [workers.submit(["sleep", 0.4]) for _ in range(4)]]
    assert [result.failure for result in results] == [None] * 4


def test_submitted_from_threads() -> None:
    values = {}
    with pool(workers=2) as workers:

        def ask(n: int) -> None:
            values[n] = workers.submit(["length", "x" * n]).result().value

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert values == {n: n for n in range(20)}


def test_nothing_is_left_after_200_calls() -> None:
    files, processes = descriptors(), children()
    with pool(workers=2, timeout_seconds=5) as workers:
        futures = [workers.submit(["_exit", 1] if n % 20 == 0 else ["length", "x"]) for n in range(200)]
        assert sum(future.result().failure is not None for future in futures) == 10
        open_files = len(descriptors())
    assert open_files <= len(files) + 2 * 8  # Three pipes each, and some while a process is being started.
    assert descriptors() == files
    assert children() == processes


def test_close_ends_what_runs_and_cancels_what_waits() -> None:
    workers = pool()
    workers.submit(["length", ""]).result()
    runs, waits = workers.submit(["sleep", 600]), workers.submit(["sleep", 600])
    while not runs.running():
        time.sleep(0.01)
    began = time.monotonic()
    workers.close()
    assert time.monotonic() - began < 5
    failure = runs.result().failure
    assert failure is not None
    assert failure.kind == "closed"
    assert waits.cancelled()
    workers.close()
    with pytest.raises(RuntimeError, match="closed"):
        workers.submit(1)


def test_close_while_loading() -> None:
    workers = pool("loads_slowly", init=600, eager=True)
    time.sleep(0.3)
    began = time.monotonic()
    workers.close()
    assert time.monotonic() - began < 5


def test_payload_that_is_not_json(shared: WorkerPool) -> None:
    with pytest.raises(TypeError):
        shared.submit(["length", object()])
    with pytest.raises(TypeError):
        pool(init=object())


def test_no_child_survives_a_killed_parent(tmp_path: Path) -> None:
    """Neither one that waits for a call nor one that hangs in one."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys, time\n"
        "from groupwise.grading.workers import WorkerPool\n"
        f"limits = dict(timeout_seconds=600, memory_mb=0, paths=[{HERE!r}])\n"
        "with WorkerPool('targets:misbehave', workers=2, **limits) as pool:\n"
        "    pids = [f.result().value for f in [pool.submit(['sleep', 0.5]) for _ in range(2)]]\n"
        "    pool.submit(['busy', None])\n"
        "    time.sleep(0.2)\n"
        "    print(*pids, flush=True)\n"
        "    time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(set(pids)) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    for _ in range(100):
        if not any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids):
            break
        time.sleep(0.05)
    else:
        pytest.fail("a worker process outlived its parent")


def test_launch_starts_the_command_line() -> None:
    with pool(launch=lambda argv: LocalProcess(["nice", "-n", "5", *argv])) as workers:
        assert workers.submit(["length", "ab"]).result().value == 2
    with pool(launch=lambda argv: LocalProcess(["no-such-program", *argv])) as workers:
        failure = workers.submit(["length", "ab"]).result().failure
        assert failure is not None
        assert failure.kind == "not_started"
        assert "no-such-program" in failure.message


def test_a_pool_needs_a_worker() -> None:
    with pytest.raises(ValueError, match="at least one worker"):
        pool(workers=0)
