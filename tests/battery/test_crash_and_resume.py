"""Crash and resume: 30 points."""

import json
from collections import Counter
from pathlib import Path

import pytest

from groupwise.track.rollouts import read_rollouts, rollout_files
from tests.battery.case import Case
from tests.support.runs import UNMEASURED, Quiet, resume, train

HERE = "tests/battery/test_crash_and_resume.py::"
RUN, RESUME = "tests/training/test_run.py::test_", "tests/training/test_resume.py::test_"
SOUND, KILL = "tests/training/test_sound_checkpoints.py::test_", "tests/training/test_any_kill.py::test_"
COMMANDS = "tests/cli/test_stopped_commands.py::test_"
STOP, SIGNAL = "tests/training/test_stopping.py::test_", "tests/test_stopping.py::test_"

CASES = (
    Case(
        1,
        6,
        "SIGKILL at 20 random instants and more, the same command again",
        "metrics, completions and weights of the uninterrupted run, byte for byte but for times",
        (KILL + "killed_at_fifty_random_instants", RUN + "killed_by_the_system_at_random_instants"),
    ),
    Case(
        2,
        4,
        "killed at any operation on the disk, in a checkpoint as elsewhere",
        "resumed from the one before; nothing half written is trusted, all of it is removed",
        (KILL + "some_operations", KILL + "every_operation", KILL + "s10_what_is_renamed_was_synced"),
    ),
    Case(
        3,
        3,
        "newest checkpoint cut off, one bit changed, a file or the manifest missing",
        "passed over, with a note that names file and reason",
        (
            RUN + "a_damaged_checkpoint_is_passed_over_and_named",
            SOUND + "each_file_is_part_of_it",
            SOUND + "a_manifest_names_no_file_outside",
        ),
    ),
    Case(
        4,
        2,
        "every checkpoint damaged, or all manifests gone",
        "an error that says so, and nothing is changed",
        (
            RUN + "checkpoints_that_are_all_damaged",
            RESUME + "s4_manifests_that_are_missing_are_damage",
            RESUME + "s4_checkpoints_that_are_gone",
        ),
    ),
    Case(
        5,
        3,
        "SIGTERM while sampling, grading, training, measuring, saving; a second one",
        "a checkpoint of the last whole step within one unit of work, exit code 143; the second ends at once",
        (STOP + "a_signal_in_any_phase", STOP + "a_second_signal_saves_nothing"),
    ),
    Case(
        6,
        1,
        "SIGINT twice; SIGHUP",
        "the same with 130 and 129, the terminal restored",
        (
            SIGNAL + "a_signal_stops_at_the_next_place_and_says_so_at_once",
            SIGNAL + "a_second_signal_stops_where_it_strikes",
            RUN + "ctrl_c_ends_the_process_with_130",
            COMMANDS + "a_signal_ends_a_run",
            COMMANDS + "a_second_signal",
            COMMANDS + "the_terminal_is_as_before",
        ),
    ),
    Case(
        7,
        2,
        "resuming a finished run, and with more steps",
        "nothing to do, said so; continues as one long run",
        (RUN + "a_complete_run_is_left_alone", RESUME + "a_finished_run_goes_on_as_one_long_run"),
    ),
    Case(
        8,
        2,
        "resuming with another learning rate, group size, data, model or seed",
        "refused with the list of differences; accepted where the change is named",
        (RESUME + "s7_what_changed_is_refused_unless_it_is_named", RESUME + "s7_all_differences_are_listed_at_once"),
    ),
    Case(
        9,
        2,
        "two processes in one run folder",
        "the second is refused; the lock of a process that is gone is taken over",
        (
            RESUME + "s3_a_second_process_is_refused_before_it_loads_anything",
            RESUME + "s3_the_lock_of_a_process_that_is_gone_is_taken_over",
            RESUME + "s3_another_machine_may_still_train",
        ),
    ),
    Case(
        10,
        2,
        "one checkpoint is kept; killed while old ones are removed",
        "never without a sound one",
        (SOUND + "s5_the_last_sound_one_stays", SOUND + "s5_at_any_kill_while_old_ones_go"),
    ),
    Case(
        11,
        3,
        "five crashes in three epochs",
        "every problem exactly once an epoch",
        (HERE + "test_every_problem_once_an_epoch_across_five_crashes",),
    ),
)


class CrashError(RuntimeError):
    """Not one that the trainer knows."""


def crash_at(step: int) -> Quiet:
    def at(finished: int) -> None:
        if finished == step:
            raise CrashError

    return Quiet(at)


def test_every_problem_once_an_epoch_across_five_crashes(tmp_path: Path) -> None:
    rows = [{"id": f"p{n}", "question": f"{n} + {n} = ?", "answer": str(2 * n)} for n in range(1, 13)]
    file = tmp_path / "sums.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = tmp_path / "run"
    options = [f"problems.train={file}", "run.rollouts_every_steps=1", "active_sampling.refill=false", "run.steps=12"]
    every = ["run.checkpoint_every_steps=2", "sampling.max_new_tokens=6", "active_sampling.filter=none"]
    with pytest.raises(CrashError):
        train(run, *options, *every, options=UNMEASURED, reporter=crash_at(3))
    for step in (5, 6, 9, 10):
        with pytest.raises(CrashError):
            resume(run, reporter=crash_at(step))
    resume(run)
    kept = rollout_files(run)
    assert list(kept) == list(range(1, 13))
    seen_by_step = [{row["problem"] for row in read_rollouts(file)} for file in kept.values()]
    for epoch in (seen_by_step[:4], seen_by_step[4:8], seen_by_step[8:]):
        assert Counter(problem for step in epoch for problem in step) == dict.fromkeys((row["id"] for row in rows), 1)
