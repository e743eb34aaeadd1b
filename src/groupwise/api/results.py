"""What a run left behind: its options, measurements, completions and model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from groupwise.config import TrainConfig
from groupwise.config.compose import compose_train_config
from groupwise.errors import DataError, UsageError
from groupwise.findings import suggest_word
from groupwise.report.build import write_report
from groupwise.track.rollouts import read_rollouts, rollout_files, whole_rows
from groupwise.track.run_folder import RunFolder, where_it_began

if TYPE_CHECKING:
    from pandas import DataFrame
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Metrics(Sequence[dict[str, Any]]):
    """The measurements of a run: a dict for each step by index, a column by name, as in `metrics["reward/total/mean"]`.

    The names are those of docs/metrics.md. Where a step lacks a number it is NaN in the column.
    """

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = list(rows)

    @property
    def columns(self) -> list[str]:
        """All names, in the order in which they first appear."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    @overload
    def __getitem__(self, key: str) -> list[float]: ...
    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> Metrics: ...
    def __getitem__(self, key: str | int | slice) -> list[float] | dict[str, Any] | Metrics:
        """Raises UsageError for a name that no step has."""
        if isinstance(key, slice):
            return Metrics(self._rows[key])
        if isinstance(key, int):
            return self._rows[key]
        if not any(key in row for row in self._rows):
            hint = suggest_word(key, self.columns) or f"; there are {', '.join(self.columns)}"
            raise UsageError(f"no step of the run has the metric {key!r}{hint}")
        return [row.get(key, math.nan) for row in self._rows]

    def to_pandas(self) -> DataFrame:
        """A DataFrame with a row for each step. Raises UsageError without pandas."""
        try:
            from pandas import DataFrame
        except ImportError:
            raise UsageError("to_pandas needs pandas: pip install pandas") from None
        return DataFrame(self._rows)

    def __repr__(self) -> str:
        return f"<{len(self._rows)} steps of {len(self.columns)} metrics: {', '.join(self.columns[:6])}, …>"


class Run:
    """A run in its folder, finished or not. What it says is read from the folder each time it is asked.

    Raises DataError if `folder` is not that of a run.
    """

    def __init__(self, folder: str | Path) -> None:
        self._files = RunFolder.existing(str(folder))

    @property
    def folder(self) -> Path:
        """Where everything of the run is."""
        return self._files.path

    @property
    def config(self) -> TrainConfig:
        """All options."""
        with where_it_began(str(self.folder)) as path:
            return compose_train_config([str(RunFolder(Path(path)).config)])

    @property
    def metrics(self) -> Metrics:
        """The measurements of the finished steps."""
        return Metrics([_numbers(row) for row in _rows(self._files.metrics)])

    @property
    def is_finished(self) -> bool:
        """Whether it has been to its end: there are a model and a summary."""
        return self._files.summary.is_file()

    @property
    def summary(self) -> dict[str, Any]:
        """What it achieved: counts, times, and the measurements before and after. Raises DataError if unfinished."""
        self._refuse_unfinished()
        return self._files.read_summary()

    @property
    def model_path(self) -> Path:
        """The folder of the trained model, in Hugging Face form, or of its adapters alone. DataError if unfinished."""
        self._refuse_unfinished()
        return self._files.model if self._files.model.is_dir() else self._files.adapter

    def load_model(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        """The trained model and its tokenizer, as transformers loads them; adapters alone are merged into their base.

        Raises DataError if unfinished.
        """
        from transformers import AutoModelForCausalLM, AutoTokenizer

        path = self.model_path
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        if path == self._files.adapter:
            from groupwise.model.load import load_policy

            model = load_policy(str(path)).model
            model.set_attn_implementation("sdpa")
            return model, tokenizer
        return AutoModelForCausalLM.from_pretrained(path, use_safetensors=True, trust_remote_code=False), tokenizer

    def rollouts(self, step: int) -> list[dict[str, Any]]:
        """The completions of a step that were kept, see docs/run-folder.md. Raises DataError if there are none."""
        kept = rollout_files(self.folder)
        if step not in kept:
            options = self.config.run
            raise DataError(
                f"no completions of step {step} were kept: run.rollouts_every_steps={options.rollouts_every_steps}, "
                f"run.rollouts_max_megabytes={options.rollouts_max_megabytes:g}; there are those of the steps "
                f"{', '.join(map(str, kept)) or 'none'}"
            )
        return read_rollouts(kept[step])

    def report(self, output: str | Path | None = None) -> Path:
        """Write the report of the run, finished or not, as one HTML file, RUN/report.html without `output`; its path.

        Raises DataError where no step is finished yet.
        """
        return write_report(str(self.folder), None if output is None else Path(output))

    def _refuse_unfinished(self) -> None:
        if not self.is_finished:
            raise DataError(
                f"the run in '{self.folder}' is not finished: it has no model and no summary; resume it with "
                f"groupwise.resume({str(self.folder)!r})"
            )

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"


def open_run(folder: str | Path) -> Run:
    """The run in a folder, also of the command line. Raises DataError if there is none."""
    return Run(folder)


def _rows(file: Path) -> list[dict[str, Any]]:
    return whole_rows(file.read_bytes()) if file.is_file() else []


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers that JSON cannot hold are text in the file."""
    return {name: _NUMBERS.get(value, value) if isinstance(value, str) else value for name, value in row.items()}
