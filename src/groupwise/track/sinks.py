"""Where else a run can be followed: a CSV file, TensorBoard, Weights & Biases, trackio and MLflow.

A library is imported when its sink is made, in the sink's thread. What a sink writes by itself is in RUN/trackers/; a
resumed run continues there, and in the same run of the service.
"""

import csv
import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from groupwise.config import TrainConfig
from groupwise.config.step import TrackerName
from groupwise.track.disk import write_whole
from groupwise.track.tracker import RunContext

# Of one completion; tables of rollouts have these columns, and no more rows of a step than this.
COLUMNS = ("problem", "sample", "prompt", "completion", "total", "advantage", "finish_reason")
TABLE_ROWS = 64

Numbers = Mapping[str, float]


class Sink:
    """A service or file that follows a run. A subclass overrides what it can show."""

    def step(self, step: int, numbers: Numbers) -> None:
        """The metrics of a step that are finite numbers."""

    def rollouts(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """The completions of a step, as `track.rollouts` has them."""

    def report(self, step: int, page: Path) -> None:
        """The report of a run that is complete, as one HTML file; `finish` follows."""

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        """The run is over; without a summary it was interrupted or failed."""


class CsvSink(Sink):
    """RUN/trackers/metrics.csv: a row for each step, a column for each metric; new ones are added on the right."""

    def __init__(self, config: TrainConfig, context: RunContext) -> None:  # noqa: ARG002
        self._path = _folder(context) / "metrics.csv"
        self._rows: list[dict[str, Any]] = []
        self._names: list[str] = []
        if self._path.is_file():
            with self._path.open(encoding="utf-8", newline="") as stream:
                read = csv.DictReader(stream)
                self._rows = [row for row in read if int(row["step"]) <= context.finished_steps]
                self._names = list(read.fieldnames or ())
            self._write_all()

    def step(self, step: int, numbers: Numbers) -> None:
        row = {**numbers, "step": step}
        self._rows.append(row)
        new = [name for name in row if name not in self._names]
        self._names += new
        if new:
            self._write_all()
            return
        with self._path.open("a", encoding="utf-8", newline="") as stream:
            csv.DictWriter(stream, self._names).writerow(row)

    def _write_all(self) -> None:
        with self._path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, self._names)
            writer.writeheader()
            writer.writerows(self._rows)


class TensorBoardSink(Sink):
    """RUN/trackers/tensorboard, for `tensorboard --logdir`."""

    def __init__(self, config: TrainConfig, context: RunContext) -> None:
        # What was shown of steps that are done again is taken back.
        self._writer = import_module("torch.utils.tensorboard").SummaryWriter(
            str(_folder(context) / "tensorboard"), purge_step=context.finished_steps + 1
        )
        self._writer.add_text("config", _code(config.model_dump(mode="json")), context.finished_steps)

    def step(self, step: int, numbers: Numbers) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def rollouts(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        table = [dict(zip(COLUMNS, row, strict=True)) for row in table_of(rows)]
        self._writer.add_text("rollouts", _code(table), step)

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        if summary is not None:
            self._writer.add_text("summary", _code(summary), summary["steps"])
        self._writer.close()


class WandbSink(Sink):
    """Weights & Biases; offline, into RUN/trackers/wandb, where there is no key or WANDB_MODE says so."""

    def __init__(self, config: TrainConfig, context: RunContext) -> None:
        wandb = import_module("wandb")
        self._wandb = wandb
        # Without a key it would ask for one, and wait for an answer.
        mode = os.environ.get("WANDB_MODE") or ("online" if wandb.api.api_key else "offline")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "groupwise"),
            name=context.folder.name,
            id=_identity(context, "wandb", lambda: uuid.uuid4().hex[:12]),
            resume="allow" if mode == "online" else None,
            mode=mode,
            dir=str(_folder(context)),
            config=config.model_dump(mode="json"),
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def step(self, step: int, numbers: Numbers) -> None:
        self._run.log({**numbers, "step": step})

    def rollouts(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        self._run.log({"step": step, "rollouts": self._wandb.Table(columns=list(COLUMNS), data=table_of(rows))})

    def report(self, step: int, page: Path) -> None:
        self._run.log({"step": step, "report": self._wandb.Html(str(page), inject=False)})

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        self._run.summary.update(_flat(summary or {}))
        self._run.finish(exit_code=0 if summary is not None else 1)


class TrackioSink(Sink):
    """trackio: a local database, `trackio show` for its pages; TRACKIO_DIR says where."""

    def __init__(self, config: TrainConfig, context: RunContext) -> None:
        self._trackio = import_module("trackio")
        self._run = self._trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", "groupwise"),
            name=_identity(context, "trackio", lambda: f"{context.folder.name}-{uuid.uuid4().hex[:6]}"),
            resume="allow",
            config=config.model_dump(mode="json"),
            embed=False,
        )

    def step(self, step: int, numbers: Numbers) -> None:
        self._run.log({name: value for name, value in numbers.items() if name != "step"}, step=step)

    def rollouts(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        pandas = import_module("pandas")
        table = self._trackio.Table(dataframe=pandas.DataFrame(table_of(rows), columns=list(COLUMNS)))
        self._run.log({"rollouts": table}, step=step)

    def report(self, step: int, page: Path) -> None:
        self._run.log({"report": self._trackio.Html(page, inject=False)}, step=step)

    def finish(self, summary: Mapping[str, Any] | None) -> None:  # noqa: ARG002
        self._run.finish()


class MlflowSink(Sink):
    """MLflow: the server of MLFLOW_TRACKING_URI, or a database in RUN/trackers."""

    def __init__(self, config: TrainConfig, context: RunContext) -> None:
        mlflow = import_module("mlflow")
        self._entities, folder = mlflow.entities, _folder(context).resolve()
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder / 'mlflow.db'}"
        self._client = mlflow.MlflowClient(uri)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "groupwise")
        found = self._client.get_experiment_by_name(name)
        place = None if os.environ.get("MLFLOW_TRACKING_URI") else (folder / "mlflow").as_uri()
        experiment = found.experiment_id if found else self._client.create_experiment(name, artifact_location=place)
        self._id = _identity(
            context, "mlflow", lambda: self._client.create_run(experiment, run_name=context.folder.name).info.run_id
        )
        self._client.log_dict(self._id, config.model_dump(mode="json"), "config.json")

    def step(self, step: int, numbers: Numbers) -> None:
        metric = self._entities.Metric
        self._client.log_batch(self._id, [metric(name, value, 0, step) for name, value in numbers.items()])

    def rollouts(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        table = [dict(zip(COLUMNS, row, strict=True)) for row in table_of(rows)]
        self._client.log_dict(self._id, {"rollouts": table}, f"rollouts/step_{step:06d}.json")

    def report(self, step: int, page: Path) -> None:  # noqa: ARG002
        self._client.log_artifact(self._id, str(page))

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        if summary is not None:
            self._client.log_dict(self._id, dict(summary), "summary.json")
        self._client.set_terminated(self._id, "FINISHED" if summary is not None else "KILLED")


SINKS: dict[TrackerName, Callable[[TrainConfig, RunContext], Sink]] = {
    "csv": CsvSink,
    "tensorboard": TensorBoardSink,
    "wandb": WandbSink,
    "trackio": TrackioSink,
    "mlflow": MlflowSink,
}


def table_of(rows: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """The first completions of a step by `COLUMNS`."""
    return [[row.get(name) for name in COLUMNS] for row in rows[:TABLE_ROWS]]


def _folder(context: RunContext) -> Path:
    folder = context.folder / "trackers"
    folder.mkdir(exist_ok=True)
    return folder


def _identity(context: RunContext, name: str, make: Callable[[], str]) -> str:
    """The run's name at the service, the same one when it is resumed."""
    path = _folder(context) / f"{name}.id"
    if not path.is_file():
        write_whole(path, make().encode())
    return path.read_text(encoding="utf-8")


def _code(value: Any) -> str:
    """As text that TensorBoard shows unchanged: an indented block of Markdown."""
    return "\n".join(
        f"    {line}" for line in json.dumps(value, indent=1, ensure_ascii=False, default=str).splitlines()
    )


def _flat(value: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested sections as one, names joined by slashes."""
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        flat |= _flat(inner, f"{before}{name}/") if isinstance(inner, Mapping) else {f"{before}{name}": inner}
    return flat
