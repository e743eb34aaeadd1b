"""What takes too long for a test, in full: runs that are stopped again and again, every operation on the disk, growth.

`python -m tests.battery figures` measures all of it, `python -m tests.battery figures SIGKILL` (or `SIGTERM`,
`sweep`, `growth`) one part; the page has the numbers. Tests do the same with less.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from groupwise import cli
from groupwise.training import setup
from tests.options.runs import fresh_policy
from tests.support.faulty_disk import FAULTS, FaultyDisk, forked, in_a_child
from tests.support.runs import UNMEASURED, Quiet, assert_same_run, train
from tests.training.test_any_kill import OPTIONS, check, run_to_its_end

FIGURES = Path(__file__).parent / "figures.json"


def stopped(folder: Path, number: signal.Signals, times: int) -> dict[str, float]:
    """The same command, sent a signal at a random instant of its life until it has been stopped so many times.

    A run that ends is compared with an undisturbed one, byte for byte but for times, and another one begins. A process
    ends within 10 s with the exit code of the signal.
    """
    seed = int.from_bytes(os.urandom(4), "little")
    instants, count, early, longest, ended = random.Random(seed), 0, 0, 0.0, 0
    whole = folder / "whole" / "run"
    life = time.monotonic()
    assert in_a_child(lambda: run_to_its_end(whole, FaultyDisk())) == 0
    life = time.monotonic() - life
    while count < times:
        run, code = folder / f"{ended}" / "run", 1
        run.parent.mkdir()
        while code and count < times:
            pid = forked(partial(command, run))
            time.sleep(instants.uniform(0.0, life))
            os.kill(pid, number)
            began = time.monotonic()
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            longest = max(longest, time.monotonic() - began)
            assert code in (0, -number, 128 + number), (code, seed)
            count += code != 0
            early += code != 0 and not (run / "metrics.jsonl").exists()
        if code:
            assert in_a_child(partial(run_to_its_end, run, FaultyDisk())) == 0, seed
        assert_same_run(run, whole)
        ended += 1
    assert longest < 10, (longest, seed)
    return {"signals": count, "before the first step": early, "runs": ended, "longest seconds": round(longest, 1)}


def command(run: Path) -> None:
    """`groupwise train … run.resume=auto` in this process, which it ends."""
    sys.argv = ["groupwise", "train", *OPTIONS, f"run.output={run}"]
    with Path(os.devnull).open("w") as nowhere, pytest.MonkeyPatch.context() as patch:
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, nowhere)
        patch.setattr(setup, "load_policy", fresh_policy)
        try:
            cli.main()
        except SystemExit as end:
            os._exit(int(end.code or 0))


def every_operation(folder: Path) -> dict[str, int]:
    """Each operation on the disk in the life of a run, killed before, in and behind it, or refused."""
    expected, sound = folder / "expected" / "run", FaultyDisk()
    expected.parent.mkdir(parents=True)
    run_to_its_end(expected, sound)
    for fault in FAULTS:
        for number in range(1, len(sound.seen) + 1):
            here = folder / f"{fault}-{number}"
            here.mkdir()
            check(number, fault, here, expected)
    return {"operations": len(sound.seen), "ways": len(FAULTS)}


TINY = [
    *UNMEASURED,
    "batch.prompts_per_step=1",
    "batch.samples_per_prompt=2",
    "sampling.max_new_tokens=3",
    "run.checkpoint_every_steps=500",
    "run.rollouts_every_steps=0",
    "active_sampling.refill=false",
    "active_sampling.filter=none",
    "entropy.bonus=fixed",
    "optimizer.lr=1e-6",
]


def held(folder: Path, steps: int) -> dict[str, list[int]]:
    """At a fifth, at three fifths and at the end of a run: the step, resident bytes, descriptors and child processes.

    Every step updates the weights.
    """
    seen: list[list[int]] = []

    def look(step: int) -> None:
        if step in (steps // 5, 3 * steps // 5, steps):
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            seen.append([step, resident, len(os.listdir("/proc/self/fd")), len(children)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "load_policy", fresh_policy)
        summary = train(folder / "run", options=[*TINY, f"run.steps={steps}"], reporter=Quiet(look))
    assert summary["optimizer_updates"] == steps
    names = ("steps", "bytes", "descriptors", "processes")
    return dict(zip(names, map(list, zip(*seen, strict=True)), strict=True))


PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "SIGKILL": lambda folder: stopped(folder, signal.SIGKILL, 50),
    "SIGTERM": lambda folder: stopped(folder, signal.SIGTERM, 50),
    "sweep": every_operation,
    "growth": lambda folder: held(folder, 2000),
}


def measure(parts: list[str]) -> None:
    """Measure these parts, all where none is named, and keep the numbers."""
    for name in parts or list(PARTS):
        with tempfile.TemporaryDirectory() as folder:
            found = PARTS[name](Path(folder))
        known = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
        ordered = {part: found if part == name else known.get(part) for part in PARTS if part == name or part in known}
        FIGURES.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
        print(name, json.dumps(found), flush=True)
