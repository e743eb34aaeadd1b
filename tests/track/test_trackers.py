"""What a run shows on the screen and writes into its folder."""

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from groupwise.config.compose import compose_train_config
from groupwise.errors import DataError
from groupwise.track.console import ConsoleTracker, clock
from groupwise.track.rollouts import Rollouts, packed, read_rollouts
from groupwise.track.run_files import RunFiles
from groupwise.track.run_folder import RunFolder
from groupwise.track.sparkline import sparkline
from groupwise.track.tracker import RunContext, Tracker, Trackers
from groupwise.track.watch import watch

CONFIG = compose_train_config(["demo", "run.steps=8"])


def started(tracker: Tracker) -> None:
    tracker.start(CONFIG, RunContext(Path("runs/x"), 0, {}))


LINE: dict[str, Any] = {
    "step": 3,
    "groups/admitted": 12.0,
    "groups/sampled": 16.0,
    "groups/accept_rate": 0.75,
    "groups/zero_std": 0.25,
    "groups/all_right": 0.1,
    "groups/all_wrong": 0.15,
    "reward/total/mean": 0.437,
    "reward/total/std_within_group": 0.291,
    "reward/correctness/mean": 0.381,
    "reward/format/mean": 0.72,
    "policy/entropy": 0.654,
    "completion/tokens": 31.4,
    "completion/truncated_fraction": 0.083,
    "time/tokens_per_second": 5123.0,
}
READINGS = ("3/8", "eta", "0.437", "±0.291", "38.1 %", "0.654", "no signal 25 %", "75 %", "31.4", "8.3 %", "5123 tok/s")


def test_the_panel_shows_all_readings() -> None:
    console = Console(record=True, width=100, force_terminal=True, file=io.StringIO())
    tracker = ConsoleTracker(console)
    started(tracker)
    tracker.step(LINE)
    tracker.finish(None)
    shown = " ".join(console.export_text().split())
    for reading in (*READINGS, "groupwise train", "runs/x", "━"):
        assert reading in shown, shown


def test_the_panel_is_there_from_the_start_and_has_curves_and_own_rewards() -> None:
    console = Console(record=True, width=100, force_terminal=True, file=io.StringIO())
    tracker = ConsoleTracker(console)
    started(tracker)
    tracker.finish(None)
    assert "sampling, grading and training the first one" in console.export_text()
    started(tracker)
    for step in range(1, 8):
        tracker.step({**LINE, "step": step, "reward/total/mean": step / 8, "reward/polite/mean": 0.125})
    tracker.finish(None)
    shown = console.export_text()
    assert "0.125   ▁▂▃▅▆▇█ 0.875" in shown, shown
    assert "polite" in shown
    assert "0.125" in shown


def shown_of(tracker: ConsoleTracker, console: Console, facts: dict[str, Any]) -> str:
    """The panel of a step that took 3 s of sampling, 1 of them waiting for rewards, and 2 of training; the steps behind
    it take 10 s."""
    tracker.start(CONFIG, RunContext(Path("runs/x"), 0, facts))
    times = {"time/sampling_seconds": 3.0, "time/waited_for_rewards_seconds": 1.0, "time/training_seconds": 2.0}
    tracker.show({**LINE, **times, "tokens/sampled": 3140.0}, 10.0)
    tracker.finish(None)
    return " ".join(console.export_text().split())


def test_the_panel_shows_where_the_time_goes_and_what_the_measurement_takes() -> None:
    console = Console(record=True, width=100, force_terminal=True, file=io.StringIO())
    # 100 answers are as many as those of the step, 3140 tokens of 31.4.
    shown = shown_of(ConsoleTracker(console), console, {"final_answers": 100})
    assert "eta 0:13" in shown
    assert re.search("sampling ━+.* 2.00 s", shown)
    assert re.search("grading ━+.* 1.00 s", shown)
    assert re.search("training ━+.* 2.00 s", shown)
    assert "health" not in shown


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ([], "health no findings"),
        (["critical eval_drop from step 149"], "health critical eval_drop from step 149 "),
        (
            ["warning clipping from step 9", "info too_easy from step 5"],
            "health warning clipping from step 9, and 1 more",
        ),
    ],
)
def test_the_panel_shows_the_health_in_one_line(found: list[str], line: str) -> None:
    console = Console(record=True, width=100, force_terminal=True, file=io.StringIO())
    tracker = ConsoleTracker(console)
    Trackers(Tracker(), tracker).health(found)
    assert line in shown_of(tracker, console, {})


def test_a_sparkline_has_means_of_neighbours() -> None:
    assert sparkline([0.0, 7.0, None, "nan", float("inf"), 3.0]) == "▁█▄"
    assert sparkline([1.0, 1.0]) == "▁▁"
    assert sparkline(range(100), 2) == "▁█"
    assert sparkline([]) == ""


def test_a_run_elsewhere_is_followed_until_it_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder.create(str(tmp_path / "run"), "x", lambda _path, _aside: CONFIG)
    files = RunFiles(folder, Tracker())
    files.start(CONFIG, RunContext(folder.path, 0, {}))
    files.step({**LINE, "step": 1, "time/step_seconds": 2.0})

    def wait(_seconds: float) -> None:
        lines = folder.metrics.read_text()
        if not lines.endswith("rew"):
            folder.metrics.write_text(lines + '{"step": 2, "rew')
            return
        folder.metrics.write_text(lines.splitlines()[0] + "\n")
        files.step({**LINE, "step": 2, "time/step_seconds": 2.0})
        folder.close()

    def judge(line: Mapping[str, Any]) -> list[str] | None:
        return ["warning clipping from step 2"] if line["step"] == 2 else None

    watch(str(folder.path), ConsoleTracker(Console(width=200)), wait, judge)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[0] for line in (lines[0], lines[2])] == ["step 1/8", "step 2/8"]
    assert lines[1] == "warning clipping from step 2: groupwise diagnose says more"
    assert lines[3:] == ["no process trains the run now: it is at step 2 of 8"]
    assert lines[0].endswith("eta 0:14")
    with pytest.raises(DataError, match="not the folder of a run"):
        watch(str(tmp_path), ConsoleTracker(Console()), wait)


def test_plain_lines_show_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    tracker = ConsoleTracker(Console(width=60))
    started(tracker)
    tracker.step(LINE)
    tracker.step({**LINE, "step": 4})
    tracker.finish(None)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "\x1b" not in "".join(lines)
    for reading in READINGS:
        assert reading in lines[0]


def test_a_step_without_groups_can_be_shown() -> None:
    console = Console(record=True, width=100, force_terminal=True, file=io.StringIO())
    tracker = ConsoleTracker(console)
    started(tracker)
    tracker.step({"step": 1, "groups/admitted": 0.0, "groups/sampled": 0.0})
    tracker.finish(None)
    assert "step 1/8" in console.export_text()


def test_times() -> None:
    assert [clock(seconds) for seconds in (0, 59.6, 61, 3600, 7325)] == ["0:00", "1:00", "1:01", "1:00:00", "2:02:05"]


def test_failures_are_shown_in_part() -> None:
    console = Console(record=True, width=200, file=io.StringIO())
    rows = [{"source": f"f.jsonl:{row}", "problem": "p", "component": "mine", "reason": "down"} for row in range(5)]
    ConsoleTracker(console).failures(2, rows)
    lines = console.export_text().splitlines()
    assert lines[0] == "not judged at step 2: f.jsonl:0: mine: down"
    assert lines[3:] == ["and 2 more, all in failures.jsonl"]


def test_a_run_as_files(tmp_path: Path) -> None:
    folder = RunFolder.create(str(tmp_path / "run"), "x", lambda _path, _aside: CONFIG)
    files = Trackers(RunFiles(folder, Tracker()), Tracker())
    files.start(CONFIG, RunContext(folder.path, 0, {"threads": 1}))
    for step in (1, 2):
        files.step({"step": step, "policy/loss": float("nan")})
        files.failures(step, [{"reason": "down"}] * step)
        files.rollouts(step, Rollouts((packed([{"sample": 0, "total": float("inf")}]),), 2))
    files.finish(None)
    assert not folder.summary.exists()
    # Resumed after the first step.
    files.start(CONFIG, RunContext(folder.path, 1, {"threads": 1}))
    assert [json.loads(line) for line in folder.metrics.open()] == [
        {"schema_version": 1, "step": 1, "policy/loss": "nan"}
    ]
    assert [json.loads(line) for line in folder.failures.open()] == [{"step": 1, "reason": "down"}]
    assert [path.name for path in folder.rollouts.iterdir()] == ["step_000001.jsonl.gz"]
    assert read_rollouts(folder.rollouts / "step_000001.jsonl.gz") == [{"sample": 0, "total": "inf"}]
    assert folder.read_context() == {"threads": 1}
    assert compose_train_config([str(folder.config)]) == CONFIG
    files.finish({"steps": 1})
    assert folder.read_summary() == {"schema_version": 1, "steps": 1}
