"""Services that follow a run: each against its library where that is installed, and none ever in the way of a step."""

import csv
import json
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from groupwise.config import TrainConfig
from groupwise.config.compose import compose_train_config
from groupwise.errors import DataError
from groupwise.track import background
from groupwise.track.background import Background
from groupwise.track.rollouts import Rollouts, packed
from groupwise.track.sinks import SINKS, Sink
from groupwise.track.tracker import RunContext, Tracker

CONFIG = compose_train_config(["demo", "run.steps=8"])
ROW = {"problem": "1", "sample": 0, "prompt": "1+1", "completion": "<b>2</b>", "total": 1.0, "advantage": 0.5}
ROLLOUTS = Rollouts((packed([{**ROW, "finish_reason": "stop"}]),), 1)


class Notes(Tracker):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Kept(Sink):
    """Keeps what it hears; `at_step` is called first."""

    def __init__(self, at_step: Any = lambda: None) -> None:
        self.heard: list[Any] = []
        self._at_step = at_step

    def step(self, step: int, numbers: Mapping[str, float]) -> None:
        self._at_step()
        self.heard.append((step, dict(numbers)))

    def rollouts(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        self.heard.append((step, rows[0]["completion"]))

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        self.heard.append(summary)


def _given(sink: Sink, _config: TrainConfig, _context: RunContext) -> Sink:
    return sink


REPORT = "<!doctype html><title>report</title><p>Better.</p>"


def followed(name: Any, open_sink: Any, folder: Path, steps: Sequence[int] = (1, 2), done: int = 0) -> list[str]:
    """A run of some steps; what the screen hears."""

    def write_report() -> Path:
        page = folder / "report.html"
        page.write_text(REPORT)
        return page

    screen = Notes()
    tracker = Background(name, open_sink, screen, write_report=write_report)
    tracker.start(CONFIG, RunContext(folder, done, {}))
    for step in steps:
        tracker.step({"step": step, "reward/total/mean": step / 4, "policy/loss": float("nan"), "why": "text"})
        tracker.rollouts(step, ROLLOUTS)
    tracker.finish({"steps": steps[-1], "after": {"greedy": {"accuracy": {"value": 0.5}}}})
    return screen.notes


def test_a_sink_hears_everything_in_order_and_only_finite_numbers(tmp_path: Path) -> None:
    kept = Kept()
    assert followed("csv", lambda _config, _context: kept, tmp_path) == []
    assert kept.heard[:3] == [(1, {"step": 1, "reward/total/mean": 0.25}), (1, "<b>2</b>"), (2, kept.heard[2][1])]
    assert kept.heard[-1]["steps"] == 2


def test_the_report_is_written_for_those_that_show_it_and_comes_before_the_end(tmp_path: Path) -> None:
    class Shown(Kept):
        def report(self, step: int, page: Path) -> None:
            self.heard.append((step, page.read_text()))

    followed("csv", lambda _config, _context: Kept(), tmp_path)
    assert not (tmp_path / "report.html").exists()
    shown = Shown()
    assert followed("wandb", lambda _config, _context: shown, tmp_path) == []
    assert shown.heard[-2] == (2, REPORT)
    assert shown.heard[-1]["steps"] == 2


def test_an_interrupted_run_or_one_without_a_report_ends_without_it(tmp_path: Path) -> None:
    class Shown(Kept):
        def report(self, step: int, page: Path) -> None:
            self.heard.append((step, page))

    def fail() -> Path:
        raise DataError("nothing to report")

    for summary, write in ((None, lambda: tmp_path), ({"steps": 1}, fail)):
        shown, screen = Shown(), Notes()
        tracker = Background("wandb", partial(_given, shown), screen, write_report=write)
        tracker.start(CONFIG, RunContext(tmp_path, 0, {}))
        tracker.finish(summary)
        assert shown.heard == [summary]
        assert screen.notes == []


def test_one_that_fails_is_dropped_with_one_warning(tmp_path: Path) -> None:
    def fail() -> None:
        raise ConnectionError("no\nanswer")

    kept = Kept(fail)
    notes = followed("wandb", lambda _config, _context: kept, tmp_path)
    assert notes == ["warning: tracker wandb is dropped, the run continues without it: ConnectionError: no answer"]
    assert kept.heard == []


def test_one_that_leaves_or_is_not_installed_is_dropped(tmp_path: Path) -> None:
    def leave(_config: TrainConfig, _context: RunContext) -> Sink:
        raise SystemExit(3)

    def missing(_config: TrainConfig, _context: RunContext) -> Sink:
        raise ModuleNotFoundError("No module named 'wandb'")

    assert ["SystemExit: 3" in note for note in followed("wandb", leave, tmp_path)] == [True]
    (note,) = followed("wandb", missing, tmp_path)
    assert note.endswith("No module named 'wandb': pip install 'groupwise[wandb]'")


def test_no_step_waits_for_a_slow_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_WAITING", 4)
    blocked, screen = threading.Event(), Notes()
    tracker = Background("mlflow", lambda _config, _context: Kept(blocked.wait), screen, finish_seconds=0.2)
    tracker.start(CONFIG, RunContext(tmp_path, 0, {}))
    began = time.monotonic()
    for step in range(1, 30):
        tracker.step({"step": step})
    assert time.monotonic() - began < 0.2
    tracker.finish(None)
    assert time.monotonic() - began < 2
    assert len(screen.notes) == 1
    assert "entries behind" in screen.notes[0]
    blocked.set()


def test_one_that_hangs_at_the_end_is_left(tmp_path: Path) -> None:
    blocked, screen = threading.Event(), Notes()
    tracker = Background("mlflow", lambda _config, _context: Kept(blocked.wait), screen, finish_seconds=0.1)
    tracker.start(CONFIG, RunContext(tmp_path, 0, {}))
    tracker.step({"step": 1})
    tracker.finish(None)
    assert ["not done 0.1 s after the run" in note for note in screen.notes] == [True]
    blocked.set()


def test_csv_has_a_column_for_each_metric_and_is_cut_back_on_resume(tmp_path: Path) -> None:
    def rows() -> list[dict[str, str]]:
        with (tmp_path / "trackers" / "metrics.csv").open(newline="") as stream:
            return list(csv.DictReader(stream))

    assert followed("csv", SINKS["csv"], tmp_path, (1, 2, 3)) == []
    assert [row["reward/total/mean"] for row in rows()] == ["0.25", "0.5", "0.75"]
    assert followed("csv", SINKS["csv"], tmp_path, (2,), done=1) == []
    assert [row["step"] for row in rows()] == ["1", "2"]
    sink = SINKS["csv"](CONFIG, RunContext(tmp_path, 2, {}))
    sink.step(3, {"new": 7.0})
    assert [row["new"] for row in rows()] == ["", "", "7.0"]
    assert rows()[2]["reward/total/mean"] == ""


@pytest.mark.slow
def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    assert followed("tensorboard", SINKS["tensorboard"], tmp_path) == []
    assert followed("tensorboard", SINKS["tensorboard"], tmp_path, (2, 3), done=1) == []
    read = events.EventAccumulator(str(tmp_path / "trackers" / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in read.Scalars("reward/total/mean")] == [
        (1, 0.25),
        (2, 0.5),
        (3, 0.75),
    ]
    assert {"config/text_summary", "rollouts/text_summary", "summary/text_summary"} <= set(read.Tags()["tensors"])


@pytest.mark.slow
def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert followed("wandb", SINKS["wandb"], tmp_path) == []
    name = (tmp_path / "trackers" / "wandb.id").read_text()
    (written,) = (tmp_path / "trackers" / "wandb").glob(f"offline-run-*-{name}/run-{name}.wandb")
    content = written.read_bytes()
    assert b"reward/total/mean" in content
    assert b"rollouts" in content
    assert b"samples_per_prompt" in content
    (page,) = written.parent.glob("files/media/html/report*.html")
    assert page.read_text() == REPORT


@pytest.mark.slow
def test_trackio_keeps_it_in_its_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    trackio = pytest.importorskip("trackio")
    assert followed("trackio", SINKS["trackio"], tmp_path) == []
    (run,) = trackio.Api().runs("groupwise")
    assert run.name == (tmp_path / "trackers" / "trackio.id").read_text()
    logs = pytest.importorskip("trackio.sqlite_storage").SQLiteStorage.get_logs("groupwise", run.name)
    means = [(entry["step"], entry["reward/total/mean"]) for entry in logs if "reward/total/mean" in entry]
    assert means == [(1, 0.25), (2, 0.5)]
    assert len([entry for entry in logs if "rollouts" in entry]) == 2
    (page,) = (tmp_path / "trackio").rglob("*.html")
    assert page.read_text() == REPORT


@pytest.mark.slow
def test_mlflow_has_metrics_options_and_rollouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert followed("mlflow", SINKS["mlflow"], tmp_path) == []
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'trackers' / 'mlflow.db'}")
    name = (tmp_path / "trackers" / "mlflow.id").read_text()
    history = client.get_metric_history(name, "reward/total/mean")
    assert [(metric.step, metric.value) for metric in history] == [(1, 0.25), (2, 0.5)]
    (table,) = (tmp_path / "trackers" / "mlflow").rglob("step_000002.json")
    assert json.loads(table.read_text())["rollouts"][0]["completion"] == "<b>2</b>"
    (page,) = (tmp_path / "trackers" / "mlflow").rglob("report.html")
    assert page.read_text() == REPORT
    assert client.get_run(name).info.status == "FINISHED"
