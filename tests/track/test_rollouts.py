"""The files of rollouts/: within their bound, drawn by nothing but the seed, and read as far as they are whole."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from groupwise.config import TrainConfig
from groupwise.ranks import Ranks
from groupwise.rollout.sampling import derive_seed
from groupwise.track.rollouts import (
    Rollouts,
    name_of,
    packed,
    read_rollouts,
    rollout_files,
    share,
    unpacked,
    within,
)
from groupwise.track.run_files import RunFiles
from groupwise.track.run_folder import RunFolder
from groupwise.track.tracker import RunContext, Tracker
from groupwise.training.rollout_rows import kept_rollouts

WORDS = ("carry", "the", "one", "so", "that", "seven", "and", "nine", "are", "sixteen")


def rows_of(position: int, step: int, samples: int = 8, words: int = 40) -> list[dict[str, Any]]:
    """Completions that compress as real ones do: words of a few, numbers of their own."""
    made = []
    for sample in range(samples):
        draws = [derive_seed(step, position, sample, word) for word in range(words)]
        text = " ".join(WORDS[draw % len(WORDS)] for draw in draws)
        logps = [round(-(draw % 10_007) / 5_000, 4) for draw in draws]
        made.append({"position": position, "sample": sample, "completion": text, "logps": logps, "total": 1.0})
    return made


def groups_of(step: int, groups: int, **size: int) -> dict[int, list[dict[str, Any]]]:
    return {position: rows_of(position, step, **size) for position in range(groups * step, groups * (step + 1))}


class Notes(Tracker):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def written(folder: RunFolder, max_megabytes: float, steps: int, groups: int, first: int = 1, **size: int) -> list[str]:
    """Write the steps from the first one, as the loop does; what was said."""
    screen = Notes()
    files = RunFiles(folder, screen)
    files.start(TrainConfig(), RunContext(folder.path, first - 1, {"threads": 1}, folder.journal.record()))
    for step in range(first, steps + 1):
        room = share(max_megabytes, folder.journal.rollouts_bytes, steps - step + 1)
        kept = kept_rollouts(groups_of(step, groups, **size), room, 7, step, Ranks())
        assert kept is not None
        files.rollouts(step, kept)
    return screen.notes


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(str(tmp_path / "run"), "x", lambda _path, _aside: TrainConfig())


def size_of(folder: RunFolder) -> int:
    return sum(path.stat().st_size for path in folder.rollouts.iterdir())


def test_with_room_everything_is_kept_as_it_was(folder: RunFolder) -> None:
    assert written(folder, 10.0, 3, 4) == []
    for step, path in rollout_files(folder.path).items():
        assert path == folder.path / name_of(step)
        assert read_rollouts(path) == [row for rows in groups_of(step, 4).values() for row in rows]
        assert [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()] == read_rollouts(path)


def test_without_room_groups_are_drawn_and_the_bound_holds(folder: RunFolder) -> None:
    notes = written(folder, 0.02, 5, 6)
    assert 0.015e6 < size_of(folder) <= 0.02e6
    for step, path in rollout_files(folder.path).items():
        kept = {row["position"] for row in read_rollouts(path)}
        drawn = sorted(groups_of(step, 6), key=lambda position: derive_seed(7, "rollouts", step, position))
        assert kept == set(drawn[: len(kept)]), step
        assert 0 < len(kept) < 6
        # Whole groups, in order.
        assert read_rollouts(path) == [row for position in sorted(kept) for row in rows_of(position, step)]
    assert len(notes) == 1
    assert "of the 6 groups of step 1" in notes[0]


def test_a_run_that_is_interrupted_keeps_the_same_groups(folder: RunFolder, tmp_path: Path) -> None:
    whole = RunFolder.create(str(tmp_path / "whole"), "x", lambda _path, _aside: TrainConfig())
    written(whole, 0.02, 5, 6)
    written(folder, 0.02, 5, 6)
    # Behind a checkpoint of step 2 the files are those of another attempt, the last of them cut off.
    record = {name: value for name, value in folder.journal.record().items() if name < name_of(3)}
    (folder.path / name_of(4)).write_bytes((folder.path / name_of(4)).read_bytes()[:-5])
    again = RunFolder(folder.path)
    again.journal.cut_back(2, record)
    assert list(rollout_files(folder.path)) == [1, 2]
    written(again, 0.02, 5, 6, first=3)
    for step, path in rollout_files(whole.path).items():
        assert path.read_bytes() == (folder.path / name_of(step)).read_bytes()


def test_two_hundred_thousand_completions_stay_within_their_bound(folder: RunFolder) -> None:
    """500 steps of 50 groups of 8, bounded to a third of what they need."""
    groups = groups_of(1, 50, words=8)
    needed = sum(len(packed(rows)) for rows in groups.values()) * 500
    bound = needed / 3e6
    files = RunFiles(folder, Notes())
    files.start(TrainConfig(), RunContext(folder.path, 0, {"threads": 1}))
    kept_groups = 0
    for step in range(1, 501):
        room = share(bound, folder.journal.rollouts_bytes, 501 - step)
        kept = kept_rollouts(groups, room, 7, step, Ranks())
        assert kept is not None
        assert kept.sampled == 50
        kept_groups += len(kept.groups)
        files.rollouts(step, kept)
    assert 0.97 * bound * 1e6 < size_of(folder) <= bound * 1e6
    assert 0.30 < kept_groups / (500 * 50) <= 0.35
    # Every step has its part, the last one too.
    assert list(rollout_files(folder.path)) == list(range(1, 501))


def test_no_group_that_is_larger_than_its_share_is_written(folder: RunFolder) -> None:
    notes = written(folder, 0.0001, 2, 2)
    assert size_of(folder) == 0
    assert rollout_files(folder.path) == {}
    assert "rollouts/ has 0 of the 2 groups of step 1" in notes[0]


def test_what_a_step_leaves_over_falls_to_later_ones() -> None:
    assert share(1.0, 0, 4) == 250_000
    assert share(1.0, 100_000, 3) == 300_000
    assert share(1.0, 2_000_000, 3) == 0


def test_the_first_group_that_does_not_fit_ends_the_choice() -> None:
    drawn = [(1, 10, b"1234"), (2, 11, b"123456"), (3, 12, b"1")]
    assert within(4, drawn) == drawn[:1]
    assert within(9, drawn) == drawn[:1]
    assert within(10, drawn) == drawn[:2]
    assert within(3, drawn) == []


def test_a_file_that_is_cut_off_is_read_up_to_there() -> None:
    first, second = rows_of(1, 1), rows_of(2, 1)
    content = Rollouts((packed(first), packed(second)), 2).content
    assert unpacked(content) == [*first, *second]
    for size in range(len(packed(first)), len(content)):
        found = unpacked(content[:size])
        assert found == [*first, *second][: len(found)]
        assert len(found) >= len(first)
    assert unpacked(b"") == []
    assert unpacked(b"something else") == []


def test_numbers_that_json_lacks_and_half_characters() -> None:
    row = {"total": float("nan"), "logps": [float("-inf"), 0.5], "completion": "half \ud83d", "nested": {"a": [1.0]}}
    found = unpacked(packed([row]))
    assert found == [{**row, "total": "nan", "logps": ["-inf", 0.5]}]


def test_files_of_older_versions_are_read(tmp_path: Path) -> None:
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts" / "step_000010.jsonl").write_text('{"sample": 0}\n{"sample": 1}\n{"sam')
    (tmp_path / name_of(20)).write_bytes(packed([{"sample": 2}]))
    (tmp_path / "rollouts" / "step_20.txt").write_text("else")
    found = rollout_files(tmp_path)
    assert {step: read_rollouts(path) for step, path in found.items()} == {
        10: [{"sample": 0}, {"sample": 1}],
        20: [{"sample": 2}],
    }
