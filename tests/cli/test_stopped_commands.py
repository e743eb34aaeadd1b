"""A command that is ended from outside: what it says, its exit code, what it saves, how it leaves a terminal."""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from groupwise import cli
from groupwise.stopping import SIGNALS
from tests.support.commands import environment, start
from tests.support.runs import assert_same_run, metrics

TINY = [
    "train",
    "demo",
    "run.threads=1",
    "problems.eval_problems=0",
    "batch.prompts_per_step=2",
    "batch.samples_per_prompt=4",
    "sampling.max_new_tokens=16",
    "run.output=run",
]
LONG = [*TINY, "run.steps=100000"]


def wait_for_step(folder: Path, step: int, seconds: float = 120) -> None:
    """Until a line of metrics.jsonl is of that step."""
    file, until = folder / "run" / "metrics.jsonl", time.monotonic() + seconds
    while time.monotonic() < until:
        if file.is_file() and f'"step": {step},' in file.read_text():
            return
        time.sleep(0.01)
    raise AssertionError(f"no step {step} within {seconds} s")


def newest(folder: Path) -> str:
    return sorted(path.name for path in (folder / "run" / "checkpoints").glob("step_*"))[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_run(tmp_path: Path, number: signal.Signals, code: int) -> None:
    process = start(tmp_path, *LONG)
    wait_for_step(tmp_path, 2)
    began = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    # A step takes far less than the bound of 10 s; a busy machine starts nothing meanwhile.
    assert time.monotonic() - began < 10
    assert process.returncode == code
    done = len(metrics(tmp_path / "run"))
    lines = err.splitlines()
    assert lines[0].startswith("stopping: finishing ")
    assert lines[0].endswith("; again to stop without saving")
    reason = "" if number == signal.SIGINT else f" ({number.name})"
    assert lines[-1] == (
        f"stopped after step {done} of 100000{reason}; resume it with: groupwise train --resume run, or in Python: "
        "groupwise.resume('run')"
    )
    assert newest(tmp_path) == f"step_{done:06d}"


@pytest.mark.slow
def test_a_second_signal(tmp_path: Path) -> None:
    process = start(tmp_path, *LONG, "run.checkpoint_every_steps=1", "sampling.max_new_tokens=200")
    wait_for_step(tmp_path, 2)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, 143)
    assert "resume it with: groupwise train --resume run" in err.splitlines()[-1]
    assert "Traceback" not in err
    # The line of a step is written before its checkpoint.
    assert int(newest(tmp_path).removeprefix("step_")) >= 1


@pytest.mark.slow
def test_a_signal_before_the_first_step(tmp_path: Path) -> None:
    process = start(tmp_path, *LONG)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    said = err.splitlines()[-1]
    assert said == "stopped by SIGTERM" or said.startswith("stopped after step 0 of 100000")
    assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 20])
def test_a_closed_output(tmp_path: Path, lines: int) -> None:
    """As with `groupwise train | head -N`."""
    process = start(tmp_path, *LONG)
    assert process.stdout is not None
    assert process.stderr is not None
    for _ in range(lines):
        process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=60) == 1
    if lines == 1:
        assert err == "error: the output cannot be written any more: [Errno 32] Broken pipe\n"
        return
    done = len(metrics(tmp_path / "run"))
    assert newest(tmp_path) == f"step_{done:06d}"
    assert err.splitlines()[-1].startswith(
        f"stopped after step {done} of 100000 (the output cannot be written any more: [Errno 32] Broken pipe); resume"
    )
    assert "Traceback" not in err
    assert "Exception ignored" not in err


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_in_a_finalizer_is_not_lost(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    """What is raised there is dropped, as it is in callbacks of weak references while modules are imported."""

    class Gone:
        def __del__(self) -> None:
            os.kill(os.getpid(), number)
            for _ in range(1000):
                pass

    def command() -> None:
        Gone()
        time.sleep(10)

    before = {each: signal.signal(each, signal.SIG_DFL) for each in SIGNALS}
    try:
        began = time.monotonic()
        assert cli.guarded(command) == 128 + number
        assert time.monotonic() - began < 5
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert capsys.readouterr().err == f"stopped by {number.name}\n"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux alone has a disk that is always full")
def test_an_output_on_a_full_disk(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "groupwise", *LONG]
        ended = subprocess.run(
            command, cwd=tmp_path, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_the_terminal_is_as_before(tmp_path: Path) -> None:
    """The panel hides the cursor and shows it again; the message is part of the panel."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "groupwise", *LONG, "run.checkpoint_every_steps=1", "sampling.max_new_tokens=200"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(TERM="xterm"), stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown, pressed = b"", 0.0
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
        if not pressed and b"step 2/" in shown:
            pressed = time.monotonic()
            for _ in range(2):
                process.send_signal(signal.SIGTERM)
                time.sleep(0.02)
    os.close(ours)
    assert process.wait(timeout=60) == 143
    assert shown.count(b"\x1b[?25l") == shown.count(b"\x1b[?25h") > 0
    assert b"resume it with" in shown.replace(b"\r\n", b" ")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_that_takes_no_utf_8(tmp_path: Path, encoding: str) -> None:
    command = [sys.executable, "-m", "groupwise"]
    env = environment(PYTHONIOENCODING=encoding, PYTHONUTF8="0", LC_ALL="C")
    # Where a stream says that it is ASCII, click writes UTF-8 to it.
    others = [] if encoding == "ascii" else [["explain", "dapo"], ["recipes"]]
    for arguments in ([*TINY, "run.steps=1"], *others):
        ended = subprocess.run([*command, *arguments], cwd=tmp_path, env=env, capture_output=True, timeout=120)
        assert ended.returncode == 0, ended.stderr
        text = ended.stdout.decode(encoding)
        assert "\\u" not in text
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 1


STOPPED = [
    *TINY,
    "run.steps=12",
    "run.checkpoint_every_steps=2",
    "run.rollouts_every_steps=5",
    "run.resume=auto",
    "problems.eval_problems=2",
    "problems.eval_every_steps=4",
    "batch.epochs_per_step=2",
]


def finish(process: subprocess.Popen[str], codes: tuple[int, ...], seed: int) -> None:
    """Wait for the end, which has one of these exit codes."""
    _, errors = process.communicate(timeout=300)
    assert process.returncode in codes, (seed, errors)
    assert "Traceback" not in errors, (seed, errors)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_stopped_at_random_instants(tmp_path: Path) -> None:
    """Anywhere in the life of the process, while it imports and when it ends: the undisturbed run in the end."""
    seed = int.from_bytes(os.urandom(4), "little")
    instants, whole, cut = random.Random(seed), tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    life = time.monotonic()
    finish(start(whole, *STOPPED), (0,), seed)
    life = time.monotonic() - life
    for _ in range(4):
        process = start(cut, *STOPPED)
        time.sleep(instants.uniform(0.0, life))
        process.send_signal(signal.SIGTERM)
        finish(process, (0, -signal.SIGTERM, 128 + signal.SIGTERM), seed)
    finish(start(cut, *STOPPED), (0,), seed)
    assert_same_run(cut / "run", whole / "run")
