"""Checkpoints: which ones count, and which ones go (S5 of the faults)."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from groupwise.errors import DataError, WriteError
from groupwise.track.disk import sweep
from groupwise.training.checkpoint import (
    MANIFEST,
    STATE,
    TrainState,
    fault_of,
    list_checkpoints,
    newest_sound_checkpoint,
    prune,
    save_checkpoint,
)
from groupwise.training.shard_files import OPTIMIZER, WEIGHTS
from tests.support.faulty_disk import FaultyDisk, in_a_child

TENSORS: dict[str, dict[str, Tensor]] = {WEIGHTS: {"w": torch.arange(4.0)}, OPTIMIZER: {"exp_avg/w": torch.ones(4)}}


def saved(folder: Path, *steps: int, keep: int = 99) -> None:
    for step in steps:
        save_checkpoint(folder, TENSORS, TrainState(step=step), keep)


def damage(folder: Path, step: int) -> None:
    (folder / f"step_{step:06d}" / WEIGHTS).write_bytes(b"")


def there(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("step_")) for path in list_checkpoints(folder)]


def test_s5_damaged_checkpoints_do_not_count(tmp_path: Path) -> None:
    saved(tmp_path, 3, 4, 12)
    damage(tmp_path, 12)
    prune(tmp_path, 1)
    assert there(tmp_path) == [4, 12]
    saved(tmp_path, 5, keep=2)
    assert there(tmp_path) == [4, 5, 12]
    # The run comes to the damaged one, which is replaced.
    saved(tmp_path, 12, keep=2)
    assert there(tmp_path) == [5, 12]
    assert fault_of(tmp_path / "step_000012") is None


def test_s5_the_last_sound_one_stays(tmp_path: Path) -> None:
    saved(tmp_path, 3, 4, 12)
    for step in (4, 12):
        damage(tmp_path, step)
    prune(tmp_path, 1)
    assert there(tmp_path) == [3, 4, 12]
    damage(tmp_path, 3)
    prune(tmp_path, 1)
    assert there(tmp_path) == [3, 4, 12]


def test_s5_at_any_kill_while_old_ones_go(tmp_path: Path) -> None:
    """[3, 4, damaged 12], one is kept: however far it comes, 4 is there and sound."""
    number, ended = 0, 9
    while ended == 9:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        saved(folder, 3, 4, 12)
        damage(folder, 12)

        def work(folder: Path = folder, number: int = number) -> None:
            with pytest.MonkeyPatch.context() as patch:
                FaultyDisk(number, "after").installed(patch)
                prune(folder, 1)

        ended = in_a_child(work)
        found, _ = newest_sound_checkpoint(folder)
        assert found == folder / "step_000004"
        prune(folder, 1)
        sweep(folder)
        assert sorted(path.name for path in folder.iterdir()) == ["step_000004", "step_000012"]
    assert ended == 0
    assert number > 5


def test_many_steps_are_in_their_order(tmp_path: Path) -> None:
    saved(tmp_path, 999_999, 1_000_000, keep=1)
    assert there(tmp_path) == [1_000_000]
    (tmp_path / "step_of_mine").mkdir()
    assert there(tmp_path) == [1_000_000]


@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER, STATE, MANIFEST])
def test_each_file_is_part_of_it(tmp_path: Path, name: str) -> None:
    saved(tmp_path, 1, 2)
    assert newest_sound_checkpoint(tmp_path) == (tmp_path / "step_000002", [])
    file = tmp_path / "step_000002" / name
    content = file.read_bytes()
    for damaged in (content[:-7], b"", None):
        file.unlink(missing_ok=True)
        if damaged is not None:
            file.write_bytes(damaged)
        found, (reason,) = newest_sound_checkpoint(tmp_path)
        assert found == tmp_path / "step_000001"
        assert reason.startswith("step_000002: ")
        assert name in reason


def test_a_manifest_names_no_file_outside(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    manifest = tmp_path / "step_000001" / MANIFEST
    stated = json.loads(manifest.read_text())
    for change, reason in (
        ({"../secret": "0"}, r"names '../secret', which is no file of the checkpoint"),
        ({"/etc/passwd": "0"}, r"names '/etc/passwd', which is no file"),
    ):
        manifest.write_text(json.dumps({**stated, "sha256": {**stated["sha256"], **change}}))
        with pytest.raises(DataError, match=reason):
            newest_sound_checkpoint(tmp_path)
    del stated["sha256"][OPTIMIZER]
    manifest.write_text(json.dumps(stated))
    with pytest.raises(DataError, match=r"does not name optimizer.safetensors"):
        newest_sound_checkpoint(tmp_path)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, 1)
    for number in range(1, 13):
        with monkeypatch.context() as patch:
            FaultyDisk(number, "fails").installed(patch)
            with pytest.raises(WriteError, match="No space left on device"):
                saved(tmp_path, 2)
        assert [path.name for path in tmp_path.iterdir()] == ["step_000001"], number
    saved(tmp_path, 2)
    assert there(tmp_path) == [1, 2]
