"""Nothing is left behind: after many runs at once, after close, and when our own process dies."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from groupwise.grading.sandbox.attack_suite import sandboxed
from groupwise.grading.sandbox.broker import ipc
from groupwise.grading.sandbox.open import open_backend, open_sandbox
from groupwise.grading.sandbox.runs import Call, Limits, SandboxOptions
from groupwise.grading.sandbox.sandbox import Sandbox

ROOMY = Limits(wall_seconds=60, cpu_seconds=15)
# By number of the run, modulo their count: program, limits, and the status that it ends with.
MIXED = [
    ("print(2 * int(input()))", ROOMY, "exited"),
    ("import time\ntime.sleep(100)", Limits(wall_seconds=0.5), "timeout"),
    ("import sys\nwhile True: sys.stdout.write('x' * 4096)", ROOMY, "output_limit"),
    ("import os\nfor _ in range(5):\n    if os.fork() == 0:\n        os.setsid(); os.read(0, 9)\n", ROOMY, "exited"),
    (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\nos.close(1)\ntime.sleep(9)",
        Limits(wall_seconds=0.5),
        "timeout",
    ),
    ("import os\nos.kill(os.getpid(), 9)", ROOMY, "killed"),
    ("open('a', 'w').write('x' * (1 << 20))", ROOMY, "exited"),
    ("raise SystemExit(3)", ROOMY, "exited"),
    (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "libc.shmget(0, 9, 0o1600)\nlibc.semget(0, 1, 0o1600)\nlibc.msgget(0, 0o1600)",
        ROOMY,
        "exited",
    ),
]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of this test alone for temporary files, which users of programs can enter."""
    with tempfile.TemporaryDirectory(prefix="leaks-") as name:
        os.chmod(name, 0o755)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def until_gone(pids: set[int], seconds: float = 10.0) -> set[int]:
    """Those that are still there, as other than zombies, after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        left = {pid for pid in pids if state(pid) not in ("", "Z", "X")}
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def run_at_once(sandbox: Sandbox, count: int) -> list[str]:
    statuses = [""] * count

    def run(number: int) -> None:
        program, limits, _ = MIXED[number % len(MIXED)]
        statuses[number] = sandbox.run_program(program, "21\n", limits).status

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def check_nothing_left(sandbox: Sandbox, count: int, temporary: Path) -> None:
    sandbox.run_program("pass", "", ROOMY)
    before = descriptors()
    assert run_at_once(sandbox, count) == [MIXED[number % len(MIXED)][2] for number in range(count)]
    assert until_gone(set(sandboxed(sandbox))) == set()
    assert [ipc.of_user(uid) for uid in sandbox.broker.uids or () if ipc.of_user(uid)] == []
    assert descriptors() == before
    assert list(temporary.iterdir()) == []
    assert not [uid for uid in sandbox.broker.uids or [] if os.path.exists(f"/tmp/nsjail.{uid}.root")]
    for group in sandbox.broker.cgroups:
        assert [entry.name for entry in os.scandir(group) if entry.is_dir()] == []


def test_sixteen_at_once_leave_nothing(sandbox: Sandbox, temporary: Path) -> None:
    check_nothing_left(sandbox, 16, temporary)


@pytest.mark.slow
def test_sixty_four_at_once_leave_nothing(each_sandbox: Sandbox, temporary: Path) -> None:
    check_nothing_left(each_sandbox, 64, temporary)


@pytest.mark.slow
def test_many_runs_leave_no_descriptors(sandbox: Sandbox) -> None:
    sandbox.run_program("pass", "", ROOMY)
    before = descriptors()
    for _ in range(150):
        assert sandbox.run_program("print(1)", "", ROOMY).stdout == b"1\n"
    assert descriptors() == before
    assert until_gone(set(sandboxed(sandbox))) == set()


def test_threads_and_close() -> None:
    before = descriptors()
    threads = ThreadPoolExecutor(2)
    with open_sandbox(SandboxOptions()) as sandbox:
        broker, groups = sandbox.broker.pid, sandbox.broker.cgroups
        first = [threads.submit(sandbox.run_program, "print(int(input()) + 1)", f"{n}\n", ROOMY) for n in range(5)]
        call = threads.submit(sandbox.call, "def f(n): return n + 1", "f", [Call((1,))], ROOMY)
        assert [future.result().stdout for future in first] == [b"%d\n" % (n + 1) for n in range(5)]
        assert call.result().results[0].value == 2
        sleeping = [threads.submit(sandbox.run_program, "import time; time.sleep(100)", "", ROOMY) for _ in range(6)]
        time.sleep(0.5)
    threads.shutdown()
    for future in sleeping:
        try:
            assert not future.result(timeout=0).succeeded
        except RuntimeError:
            continue
    assert state(broker) == ""
    assert not any(os.path.exists(group) for group in groups)
    assert descriptors() == before
    with pytest.raises(RuntimeError, match="closed"):
        sandbox.run_program("pass")


PARENT = '''
import json, signal, sys, threading, time
from groupwise.grading.sandbox.attack_suite import sandboxed
from groupwise.grading.sandbox.open import open_backend
from groupwise.grading.sandbox.runs import SandboxOptions
from groupwise.grading.sandbox.runs import Limits
# A shell starts its background jobs with this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sandbox = open_backend(sys.argv[1], SandboxOptions())
program = """
import os, signal, time
signal.signal(15, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
time.sleep(1000)
"""
for _ in range(3):
    threading.Thread(target=sandbox.run_program, args=(program, "", Limits(wall_seconds=1000)), daemon=True).start()
deadline = time.monotonic() + 30
while len(found := list(sandboxed(sandbox))) < 9 and time.monotonic() < deadline:
    time.sleep(0.05)
print(json.dumps([sandbox.broker.pid, sandbox.broker.cgroups, found]), flush=True)
try:
    time.sleep(1000)
except KeyboardInterrupt:
    sandbox.close()
'''


OTHERS = [pytest.param(name, signal.SIGKILL, marks=pytest.mark.slow) for name in ("nsjail", "sandlock", "none")]


@pytest.mark.parametrize(("name", "number"), [("bubblewrap", signal.SIGKILL), ("bubblewrap", signal.SIGINT), *OTHERS])
def test_nothing_outlives_our_own_process(name: str, number: signal.Signals, temporary: Path) -> None:
    try:
        open_backend(name, SandboxOptions()).close()
    except Exception as error:
        pytest.skip(str(error))
    environment = {**os.environ, "TMPDIR": str(temporary)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, name], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    broker, groups, pids = json.loads(parent.stdout.readline())
    assert len(pids) >= 9
    parent.send_signal(number)
    parent.wait(30)
    parent.stdout.close()
    assert until_gone({broker, *pids}) == set()
    assert not any(os.path.exists(group) for group in groups)
    if name == "bubblewrap":
        assert list(temporary.iterdir()) == []


def test_a_worker_speaks_until_it_is_killed(sandbox: Sandbox, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, sys\nfor line in sys.stdin:\n    print(os.environ['NAME'], 2 * int(line), flush=True)"
    )
    limits = Limits(wall_seconds=None, cpu_seconds=None)
    process = sandbox.start_worker(["python", "-S", str(script)], limits, [tmp_path], {"NAME": "w"})
    try:
        answers = []
        for number in (1, 2, 3):
            os.write(process.stdin, b"%d\n" % number)
            answers.append(os.read(process.stdout, 100))
        assert answers == [b"w 2\n", b"w 4\n", b"w 6\n"]
        assert process.wait(0.05) is None
        process.kill()
        report = process.wait(10)
        assert report is not None
        assert report["exit_code"] != 0
    finally:
        process.close()
        process.close()
    assert until_gone(set(sandboxed(sandbox))) == set()
