"""Problems of reasoning-gym: `reasoning_gym:NAME`, or with its settings, `reasoning_gym:NAME?key=value&…`."""

import dataclasses
import difflib
import importlib
import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from io import StringIO
from typing import Any, Literal
from urllib.parse import parse_qsl

from groupwise.data.reasoning_gym_graders import BOUNDED, GRADERS, REFUSED, GymGrader
from groupwise.errors import DataError
from groupwise.problem import GYM_PREFIX, Message, Problem

ROW_KEY = "reasoning_gym"
SCORER = "groupwise.data.reasoning_gym_worker:load"
Split = Literal["train", "eval"]

# One question in four belongs to the evaluation, whatever the seed. More would cost training its variety, fewer would
# make drawing problems for the evaluation slow.
EVAL_SHARE = 1 / 4
_TRIES = 256
_CHUNK = 500


@dataclass(frozen=True)
class GymSource:
    """A data set with its settings. `size` is how many problems there are, None without end.

    grader: what can say whether an answer is right, see GymGrader.
    """

    name: str
    settings: Mapping[str, Any]
    size: int | None
    grader: GymGrader

    def problem(self, seed: int, split: Split, index: int) -> Problem:
        """Problem `index` of a split, from (seed, split, index) alone. No question is in both splits, for any seeds.

        Its row holds under `reasoning_gym` what `entry_of` needs to make it again.
        """
        for attempt in range(_TRIES):
            place = self._place(seed, split, index, attempt)
            entry = entry_of(place)
            if held_out(entry["question"]) == (split == "eval"):
                break
        else:
            raise DataError(
                f"{GYM_PREFIX}{self.name} has too few different questions to hold some out for the evaluation"
            )
        answer = entry["answer"]
        return Problem(
            id=f"{self.name}/{split}/{index}",
            messages=(Message("user", entry["question"]),),
            answer="" if answer is None else str(answer),
            domain=_category(self.name),
            source=f"{GYM_PREFIX}{self.name}:{index}",
            row={ROW_KEY: {**place, "question_digest": digest(entry["question"])}},
            grader="literal" if self.grader == "literal" else "",
            scorer="" if self.grader == "literal" else SCORER,
        )

    def _place(self, seed: int, split: Split, index: int, attempt: int) -> dict[str, Any]:
        if self.name in BOUNDED:
            stream, index = f"{index // _CHUNK}/{attempt}", index % _CHUNK
        else:
            stream, index = "", index * _TRIES + attempt
        # Some add the index to the seed, for a generator that takes 32 bits.
        number = _number(f"reasoning_gym/{seed}/{split}/{stream}") >> 33
        return {"dataset": self.name, "settings": dict(self.settings), "seed": number, "index": index}


def gym_source(source: str) -> GymSource:
    """Read a source string. Values of settings are JSON; `size` limits the number of problems.

    Raises DataError if reasoning-gym is not installed, for unknown data sets and settings, for values that the data
    set refuses, and for data sets in REFUSED.
    """
    name, _, query = source.removeprefix(GYM_PREFIX).partition("?")
    known = _registry()
    if name not in known:
        near = difflib.get_close_matches(name, known, 3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"It has {', '.join(sorted(known))}."
        raise DataError(f"{source}: reasoning-gym has no data set {name!r}. {hint}")
    if name in REFUSED:
        raise DataError(f"{source}: this data set cannot be trained on: {REFUSED[name]}")
    settings = {key: _value(text) for key, text in parse_qsl(query, keep_blank_values=True)}
    fields = [field.name for field in dataclasses.fields(known[name][1])]
    for key in settings:
        if key == "seed":
            raise DataError(f"{source}: the seed is that of the run; leave `seed` out")
        if key not in fields and key != "size":
            near = difflib.get_close_matches(key, fields, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(sorted(fields))}."
            raise DataError(f"{source}: {name} has no setting {key!r}. {hint}")
    size = settings.pop("size", None)
    if size is not None and (type(size) is not int or size < 1):
        raise DataError(f"{source}: size is {size!r}, which should be a whole number from 1")
    try:
        _dataset(name, json.dumps(settings, sort_keys=True), 0)
    except Exception as error:
        raise DataError(f"{source}: {name} refuses these settings: {error or type(error).__name__}") from error
    return GymSource(name, settings, size, GRADERS.get(name, "scorer"))


def entry_of(place: Mapping[str, Any]) -> dict[str, Any]:
    """The entry as the data set makes it: `question`, `answer` and `metadata`. place: as in the row of a problem."""
    dataset = _dataset(place["dataset"], json.dumps(place["settings"], sort_keys=True), place["seed"])
    with redirect_stdout(StringIO()):  # One of the generators prints its progress.
        entry: dict[str, Any] = dataset[place["index"]]
    return entry


def score_of(place: Mapping[str, Any], answer: str) -> float:
    """What the data set's own scorer says. It may evaluate the answer: only for a process inside a sandbox."""
    dataset = _dataset(place["dataset"], json.dumps(place["settings"], sort_keys=True), place["seed"])
    return float(dataset.score_answer(answer, entry_of(place)))


def held_out(question: str) -> bool:
    """Whether a question belongs to the evaluation; a property of its text alone."""
    return _number(f"held out/{question}") < EVAL_SHARE * 2**64


def digest(question: str) -> str:
    """Stands for the text of a question."""
    return f"{_number(question):016x}"


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _registry() -> dict[str, tuple[Any, Any]]:
    try:
        importlib.import_module("reasoning_gym")
        factory = importlib.import_module("reasoning_gym.factory")
    except ImportError as error:
        raise DataError(
            f"problems of reasoning_gym need a Python package that is not installed: {error}. "
            "Run: pip install 'groupwise[reasoning-gym]'"
        ) from error
    registry: dict[str, tuple[Any, Any]] = factory.DATASETS
    return registry


def _category(name: str) -> str:
    parts = _registry()[name][0].__module__.split(".")
    return str(parts[1]) if len(parts) > 2 else ROW_KEY


@lru_cache(maxsize=64)
def _dataset(name: str, settings: str, seed: int) -> Any:
    kind, config_kind = _registry()[name]
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(settings).items()}
    config = config_kind(seed=seed, size=_CHUNK, **values)
    if hasattr(config, "validate"):
        config.validate()
    return kind(config=config)
