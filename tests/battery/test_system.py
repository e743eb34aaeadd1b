"""The system around a run: 8 points."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest

from tests.battery.case import Case
from tests.battery.figures import held
from tests.support.commands import environment
from tests.support.runs import UNMEASURED, assert_same_run, metrics, train

HERE = "tests/battery/test_system.py::"
SINKS = "tests/track/test_sinks.py::"
KILL, STOP = "tests/training/test_any_kill.py::test_", "tests/training/test_stopping.py::test_"

CASES = (
    Case(
        44,
        2,
        "a full disk at checkpoints, metrics, completions",
        "the run ends with a message, the last checkpoint is whole, and it is resumed",
        (
            "tests/training/test_sound_checkpoints.py::test_a_full_disk_leaves_what_was_there",
            KILL + "some_operations",
            KILL + "every_operation",
            STOP + "a_full_disk",
        ),
    ),
    Case(
        45,
        1,
        "out of memory while sampling or training",
        "less at once and once more, with the same gradient, or a message with what to change",
        (
            STOP + "smaller_micro_batches_where_memory_runs_out",
            STOP + "fewer_answers_at_once_where_memory_runs_out",
            STOP + "one_answer_that_does_not_fit",
        ),
    ),
    Case(
        46,
        1,
        "a tracker that is down, slow, raises or is not installed",
        "one warning, and nothing waits for it",
        (
            SINKS + "test_one_that_fails_is_dropped_with_one_warning",
            SINKS + "test_one_that_leaves_or_is_not_installed_is_dropped",
            SINKS + "test_no_step_waits_for_a_slow_one",
            SINKS + "test_one_that_hangs_at_the_end_is_left",
        ),
    ),
    Case(
        47,
        1,
        "the clock is set back, another locale and time zone, umask 077, many open files, threads that fork",
        "the same run",
        (HERE + "test_surroundings_do_not_change_a_run", HERE + "test_a_clock_that_is_set_back"),
    ),
    Case(
        48,
        1,
        "2,000 tiny steps",
        "memory, descriptors and processes do not grow",
        (HERE + "test_two_thousand_steps_leave_nothing_behind",),
    ),
    Case(
        49,
        1,
        "no network at all",
        "a whole run with its measurement and its summary",
        (HERE + "test_a_whole_run_without_a_network",),
    ),
    Case(
        50,
        1,
        "a run of the release before",
        "resumed, or refused with the version that reads it",
        (
            "tests/training/test_run.py::test_the_run_of_another_version_says_which_one_reads_it",
            "tests/training/test_resume.py::test_s6_a_checkpoint_of_an_older_version_does_not_know_the_streams",
        ),
    ),
)

SHORT = ["run.steps=2", "batch.prompts_per_step=2", "sampling.max_new_tokens=8"]

SURROUNDED = """
import locale, os, sys, threading
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
os.umask(0o077)
held = [open(os.devnull) for _ in range(900)]
from pathlib import Path
from tests.support.runs import UNMEASURED, train
train(Path("run"), *sys.argv[1:], options=UNMEASURED)
"""


@pytest.mark.slow
def test_surroundings_do_not_change_a_run(tmp_path: Path) -> None:
    train(tmp_path / "plain", *SHORT)
    elsewhere = environment(LC_ALL="de_DE.UTF-8", LANG="de_DE.UTF-8", TZ="Asia/Kathmandu", PYTHONHASHSEED="7")
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-c", SURROUNDED, *SHORT]
    subprocess.run(command, cwd=tmp_path, env=elsewhere | {"PYTHONPATH": paths}, check=True, timeout=100)
    assert_same_run(tmp_path / "run", tmp_path / "plain")
    assert (tmp_path / "run" / "metrics.jsonl").stat().st_mode & 0o077 == 0


def test_a_clock_that_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path / "plain", *SHORT)
    started = time.time()
    calls = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: started - 3600 * next(calls))
    train(tmp_path / "back", *SHORT)
    assert metrics(tmp_path / "back") == metrics(tmp_path / "plain")


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not say what a process holds")
def test_two_thousand_steps_leave_nothing_behind(tmp_path: Path) -> None:
    found = held(tmp_path, 2000)
    early, middle, late = found["bytes"]
    assert late - early < 8 << 20, f"{(late - early) / 1600:.0f} bytes a step"
    assert late - middle < 6 << 20
    for name in ("descriptors", "processes"):
        assert found[name][0] == found[name][-1]


def test_a_whole_run_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-m", "groupwise", "train", *UNMEASURED[:-1], *SHORT, "run.output=run"]
    measured = ["problems.eval_problems=4", "problems.eval_samples_per_prompt=2"]
    unshared = ["unshare", "--user", "--net", "--map-root-user"]
    usable = (
        shutil.which("unshare")
        and subprocess.run([*unshared, "true"], capture_output=True, check=False).returncode == 0
    )
    if usable:
        subprocess.run([*unshared, *command, *measured], cwd=tmp_path, env=environment(), check=True, timeout=100)
    else:

        def refused(*_: object) -> NoReturn:
            raise OSError("no network")

        monkeypatch.setattr(socket.socket, "connect", refused)
        monkeypatch.setattr(socket, "getaddrinfo", refused)
        train(tmp_path / "run", *measured, *SHORT)
    assert (tmp_path / "run" / "summary.json").is_file()
    assert len(metrics(tmp_path / "run")) == 2
