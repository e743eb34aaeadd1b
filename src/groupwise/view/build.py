"""The page of a run's rollouts: an index of them in columns, and a text and a values block for each step."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from groupwise import __version__
from groupwise.errors import DataError
from groupwise.page import block, html_page
from groupwise.track.rollouts import rollout_files, whole_rows
from groupwise.track.run_folder import RunFolder, where_it_began
from groupwise.view.levels import MOST_ENTROPY, MOST_LOG_RATIO, MOST_NATS, above, around, counts
from groupwise.view.pieces import Pieces, decoder_of
from groupwise.view.records import Record, records_of

SCRIPTS = ("data.js", "state.js", "list.js", "tokens.js", "curve.js", "detail.js", "main.js")


@dataclass
class Index:
    """What is known of every completion without its text: a column for each fact, and what their numbers name."""

    names: dict[str, dict[str, int]] = field(default_factory=lambda: {"outcomes": {}, "finishes": {}, "components": {}})
    problems: dict[tuple[str, str], int] = field(default_factory=dict)
    problem_rows: list[list[str]] = field(default_factory=list)
    columns: dict[str, list[Any]] = field(default_factory=dict)
    rewards: list[dict[str, float | None]] = field(default_factory=list)

    def add(self, step: int, record: Record, position: int) -> None:
        """The next completion."""
        key = (record.domain, record.problem)
        if key not in self.problems:
            self.problems[key] = len(self.problems)
            self.problem_rows.append([record.problem, record.domain, record.question, record.answer])
        for name in record.rewards:
            self._number("components", name)
        facts = {
            "step": step,
            "position": position,
            "sample": record.sample,
            "problem": self.problems[key],
            "outcome": self._number("outcomes", record.outcome),
            "finish": self._number("finishes", record.finish_reason),
            "tokens": record.tokens,
            "total": _finite(record.total),
            "advantage": None if record.advantage is None else _finite(record.advantage),
        }
        for name, value in facts.items():
            self.columns.setdefault(name, []).append(value)
        self.rewards.append({name: _finite(value) for name, value in record.rewards.items()})

    def _number(self, kind: str, name: str) -> int:
        return self.names[kind].setdefault(name, len(self.names[kind]))

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        rewards = [[own.get(name) for own in self.rewards] for name in self.names["components"]]
        lists = {kind: list(numbers) for kind, numbers in self.names.items()}
        return {**lists, "problems": self.problem_rows, "columns": self.columns, "rewards": rewards}


def page_of(path: str, first: int = 1, last: int | None = None, max_megabytes: float = 200.0) -> Iterator[str]:
    """The page of the run in a folder, in parts; of its steps from `first` to `last`.

    Where their files are larger than `max_megabytes`, every n-th step is shown, and the last one; the page says so.

    Raises:
        DataError: if there is no run, or no rollouts of these steps, or one that cannot be read.
    """
    with where_it_began(path) as path:
        folder = RunFolder.existing(path)
        files = {step: file for step, file in rollout_files(folder.path).items() if step >= first}
        files = {step: file for step, file in files.items() if last is None or step <= last}
        shown = thinned(files, max_megabytes)
        decode = decoder_of(folder.path, _model_path(folder))
        pieces = None if decode is None else Pieces(decode)
        index, blocks = Index(), dict[str, bytes]()
        for step, file in shown.items():
            records = records_of(file)
            blocks[f"text-{step}"], blocks[f"values-{step}"] = blocks_of(step, records, pieces, index)
        if not index.rewards:
            between = f"from step {first} on" if last is None else f"of the steps {first} to {last}"
            raise DataError(
                f"'{path}' has no rollouts {between}: they are written with run.rollouts_every_steps above 0, and as "
                "far as run.rollouts_max_megabytes has room"
            )
        facts = {
            **index.to_json(),
            "run": folder.path.name,
            "groupwise": __version__,
            "steps": list(shown),
            "notes": notes_of(folder, index, len(files), pieces is not None),
            "scales": {"nats": MOST_NATS, "entropy": MOST_ENTROPY, "logRatio": MOST_LOG_RATIO},
        }
        own = resources.files("groupwise.view")
        body, style, *scripts = (own.joinpath(name).read_text("utf-8") for name in ("view.html", "view.css", *SCRIPTS))
        script = "\n".join(["(() => {", '"use strict";', *scripts, "})();"])
        return html_page(f"{folder.path.name}: rollouts", body, [style], [script], {"index": block(facts), **blocks})


def blocks_of(step: int, records: Sequence[Record], pieces: Pieces | None, index: Index) -> tuple[bytes, bytes]:
    """The texts of a step, and the numbers of its tokens, row by row; and their facts into the index."""
    prompts: dict[str, int] = {}
    problems: dict[str, int] = {}
    texts: list[list[Any]] = []
    values: list[dict[str, Any]] = []
    for record in records:
        # Files of older versions do not tell two groups of one problem apart.
        position = record.position if record.position >= 0 else problems.setdefault(record.problem, len(problems))
        index.add(step, record, position)
        prompt = prompts.setdefault(record.prompt or record.question, len(prompts))
        parts = pieces.of(record.ids) if pieces is not None and record.ids else []
        verdict = record.verdict
        judged = [] if verdict is None else [verdict.extracted, verdict.method, verdict.flags]
        texts.append([prompt, "".join(parts) if parts else record.completion, judged, record.detail])
        own: dict[str, Any] = {"cuts": counts([units_of(part) for part in parts])}
        spans = record.scored_spans()
        scored = {"spans": spans} if spans else {}
        values.append({**own, **levels_of(record), **scored} if parts else scored)
    return block({"prompts": list(prompts), "rows": texts}), block(values)


def units_of(part: str) -> int:
    """The length of a text as JavaScript counts it."""
    return len(part) if part.isascii() else len(part.encode("utf-16-le", "replace")) // 2


def levels_of(record: Record) -> dict[str, Any]:
    """The numbers of the tokens, a character each."""
    known = record.over_tokens()
    made: dict[str, Any] = {}
    if "logps" in known:
        made["surprise"] = above([-value for value in known["logps"]], MOST_NATS)
    if "entropies" in known:
        made["entropy"] = above(known["entropies"], MOST_ENTROPY)
    if "ratios" in known:
        with np.errstate(divide="ignore", invalid="ignore"):
            made["ratio"] = around(np.log(known["ratios"]), MOST_LOG_RATIO)
    if "token_advantages" in known:
        most = max((abs(value) for value in known["token_advantages"] if math.isfinite(value)), default=0.0)
        made |= {"advantage": around(known["token_advantages"], most or 1.0), "most": most}
    return made


def thinned(files: Mapping[int, Path], max_megabytes: float) -> dict[int, Path]:
    """Every n-th step and the last one, so that their files have no more than `max_megabytes`; one at least."""
    sizes = {step: file.stat().st_size for step, file in files.items()}
    every, steps = 1, list(files)
    while len(steps) > 1 and sum(sizes[step] for step in steps) > max_megabytes * 1e6:
        every += 1
        steps = list(files)[::-1][::every][::-1]
    return {step: files[step] for step in steps}


def notes_of(folder: RunFolder, index: Index, steps: int, has_tokens: bool) -> list[str]:
    """What the page does not show."""
    notes = []
    shown = dict.fromkeys(index.columns["step"])
    if len(shown) < steps:
        notes.append(f"{len(shown)} of {steps} steps, evenly spaced: --max-megabytes or --steps shows more.")
    rows = whole_rows(folder.metrics.read_bytes()) if folder.metrics.is_file() else []
    sampled = {row["step"]: row.get("groups/sampled", 0) for row in rows if isinstance(row.get("step"), int)}
    kept: dict[int, set[int]] = {}
    for step, position in zip(index.columns["step"], index.columns["position"], strict=True):
        kept.setdefault(step, set()).add(position)
    partly = [step for step, positions in kept.items() if len(positions) < sampled.get(step, 0)]
    if partly:
        fraction = sum(len(kept[step]) for step in partly) / sum(sampled[step] for step in partly)
        notes.append(
            f"{len(partly)} steps have a draw of their groups, {fraction:.0%} of them: run.rollouts_max_megabytes had "
            "no room for more."
        )
    if not has_tokens:
        notes.append("Tokens are not coloured: the run's tokenizer.json was not found.")
    return notes


def _model_path(folder: RunFolder) -> str:
    """What the run's options call its model. They are not composed, which could run code of whoever made the run."""
    model = folder.read_context().get("config", {}).get("model", {})
    path = model.get("path", "") if isinstance(model, dict) else ""
    return path if isinstance(path, str) else ""


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
