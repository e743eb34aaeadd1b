"""Every operation on the disk in the whole life of a run: killed before, in and behind it, or refused by the system."""

import errno
import os
import random
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import torch

from groupwise.training import setup
from groupwise.training.checkpoint import fault_of, list_checkpoints
from tests.options.runs import fresh_policy
from tests.support.commands import tree
from tests.support.faulty_disk import FAULTS, KILLED, Fault, FaultyDisk, forked, in_a_child
from tests.support.runs import UNMEASURED, assert_same_run, train

OPTIONS = [
    *UNMEASURED,
    "run.steps=3",
    "run.checkpoint_every_steps=1",
    "run.keep_checkpoints=1",
    "run.rollouts_every_steps=1",
    "run.resume=auto",
    "batch.prompts_per_step=2",
    "sampling.max_new_tokens=8",
]


@pytest.fixture(autouse=True, scope="module")
def _warm() -> None:
    """Everything that a child would load is there when it is forked; its pool of threads would not come along."""
    torch.set_num_threads(1)


def run_to_its_end(output: Path, faulty: FaultyDisk) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "load_policy", fresh_policy)
        faulty.installed(patch)
        assert train(output, options=OPTIONS) is not None


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, Path]]]:
    """The run, and all that it did to the disk."""
    output, sound = tmp_path_factory.mktemp("undisturbed") / "run", FaultyDisk()
    run_to_its_end(output, sound)
    assert sound.renamed_unsynced == []
    return output, sound.seen


def check(number: int, fault: Fault, folder: Path, expected: Path, code: int = errno.ENOSPC) -> None:
    """One fault, then the same command until it ends, which is at the second time."""
    run = folder / "run"
    first = in_a_child(lambda: run_to_its_end(run, FaultyDisk(number, fault, code)))
    # What cannot be removed, or was the last thing to do, ends nothing.
    assert first in ((0, 1) if fault == "fails" else (KILLED,)), first
    assert not (folder / "run").exists() or (run / "config.yaml").exists()
    if run.exists() and (run / "metrics.jsonl").exists() and len(metrics_of_a_killed(run)) > 1:
        assert any(fault_of(path) is None for path in list_checkpoints(run / "checkpoints"))
    assert in_a_child(lambda: run_to_its_end(run, FaultyDisk())) == 0
    assert_same_run(run, expected)
    left = sorted(set(tree(folder)) - {f"run/{name}" for name in tree(expected)})
    assert left == []
    assert [path.name for path in folder.iterdir()] == ["run"]


def metrics_of_a_killed(run: Path) -> list[bytes]:
    return (run / "metrics.jsonl").read_bytes().splitlines()


def test_a_life_has_every_kind_of_operation(undisturbed: tuple[Path, list[tuple[str, Path]]]) -> None:
    _, seen = undisturbed
    kinds = Counter(operation for operation, _ in seen)
    assert set(kinds) == {"mkdir", "lock", "write", "append", "fill", "fsync", "rename", "unlink", "rmdir"}
    assert kinds["fsync"] > kinds["rename"] > 5
    names = {path.name for _, path in seen}
    for name in ("config.yaml", "context.json", "metrics.jsonl", "weights.safetensors", "model", "summary.json"):
        assert any(name in seen for seen in names), name


def test_s10_what_is_renamed_was_synced(undisturbed: tuple[Path, list[tuple[str, Path]]]) -> None:
    """Each file before its folder, the folder before it is renamed, then the folder above; streams before all that."""
    _, seen = undisturbed
    lines = [number for number, (kind, path) in enumerate(seen) if (kind, path.name) == ("append", "metrics.jsonl")]
    assert len(lines) == 3
    for step, line in enumerate(lines, start=1):
        name = f"step_{step:06d}"
        renamed = next(number for number, (kind, path) in enumerate(seen) if (kind, path.name) == ("rename", name))
        between = [(kind, path.name) for kind, path in seen[line:renamed]]
        for synced in ("metrics.jsonl", f"{name}.jsonl.gz", "rollouts", "run", "manifest.json", "state.json"):
            assert ("fsync", synced) in between, synced
        files = [number for number, (_, file) in enumerate(between) if file.endswith((".safetensors", ".json"))]
        assert between.index(("fsync", f".{name}.tmp")) > max(files)
        assert (seen[renamed + 1][0], seen[renamed + 1][1].name) == ("fsync", "checkpoints")


SAMPLED = [
    (0.05, "torn"),
    (0.3, "before"),
    (0.45, "torn"),
    (0.6, "fails"),
    (0.8, "after"),
    (0.95, "before"),
]


@pytest.mark.parametrize(("share", "fault"), SAMPLED)
def test_some_operations(
    undisturbed: tuple[Path, list[tuple[str, Path]]], tmp_path: Path, share: float, fault: Fault
) -> None:
    expected, seen = undisturbed
    check(round(share * len(seen)), fault, tmp_path, expected)


def killed_at(output: Path, seconds: float) -> bool:
    """The run, and SIGKILL after so many seconds; whether it came in time."""
    pid = forked(lambda: run_to_its_end(output, FaultyDisk()))
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def killed_at_random(folder: Path, expected: Path, kills: int) -> None:
    """Runs that are killed at random instants until one of them is through, and another one then."""
    seed = int.from_bytes(os.urandom(4), "little")
    instants, done, number = random.Random(seed), 0, 0
    while done < kills:
        run = folder / str(number) / "run"
        run.parent.mkdir()
        while done < kills and killed_at(run, instants.uniform(0.0, 1.0)):
            done += 1
        assert in_a_child(partial(run_to_its_end, run, FaultyDisk())) == 0, seed
        assert_same_run(run, expected)
        assert [path.name for path in run.parent.iterdir()] == ["run"], seed
        number += 1


def test_killed_at_random_instants(undisturbed: tuple[Path, list[tuple[str, Path]]], tmp_path: Path) -> None:
    killed_at_random(tmp_path, undisturbed[0], 3)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_killed_at_fifty_random_instants(undisturbed: tuple[Path, list[tuple[str, Path]]], tmp_path: Path) -> None:
    killed_at_random(tmp_path, undisturbed[0], 50)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS)
def test_every_operation(undisturbed: tuple[Path, list[tuple[str, Path]]], tmp_path: Path, fault: Fault) -> None:
    """Wherever the process dies or the disk is full, the same command again ends as if nothing had happened."""
    expected, seen = undisturbed
    for number in range(1, len(seen) + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        check(number, fault, folder, expected)
