"""Models, problems and rewards that a program passes as objects, as files of a folder and options that name them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from groupwise.api.rewards import Rewards, resolve
from groupwise.config import TrainConfig
from groupwise.config.compose import Source, with_default_recipe
from groupwise.data.rows import kind_of
from groupwise.errors import DataError, GroupwiseError, UsageError, first_line
from groupwise.grading.functions.samples import plain
from groupwise.track import disk

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Path_ = str | PathLike[str]
Sources = Source | PathLike[str] | Sequence[Source | PathLike[str]]
"""A recipe, a YAML file, `key=value`, a mapping, a TrainConfig, or several of them of which later ones win."""
Model: TypeAlias = "str | PathLike[str] | PreTrainedModel | Mapping[str, Any]"
Tokenizer: TypeAlias = "str | PathLike[str] | PreTrainedTokenizerBase"
Problems = Path_ | Iterable[Any] | Mapping[str, Any]
"""A source as in problems.train, rows, or options of the section problems."""

INPUTS = "inputs"
SPLITS = "pass one of them, as in problems=data['train'], eval_problems=data['test']"


@dataclass
class Inputs:
    """What was passed: options by dotted key; texts of files; options that are paths of these; what to save, and notes.

    called: how the program that passed a file knows it.
    """

    options: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    placed: dict[str, str] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)
    model: tuple[PreTrainedModel, PreTrainedTokenizerBase] | None = None
    objects: dict[str, Callable[..., Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def sources(self, folder: Path) -> list[Source]:
        """The options, of a run in this folder."""
        place = folder.absolute() / INPUTS
        stated = self.options | {key: str(place / name) for key, name in self.placed.items()}
        return [{key: value} for key, value in stated.items()]

    def write(self, folder: Path) -> None:
        """Write the files. Raises DataError where a model cannot be saved."""
        if not (self.texts or self.model):
            return
        place = folder / INPUTS
        disk.make_folder(place)
        for name, text in self.texts.items():
            disk.write(place / name, text.encode())
        if self.model is not None:
            try:
                disk.fill(place / "model", partial(_save, *self.model, place))
            except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
                raise DataError(f"the model that was passed in cannot be saved: {first_line(error)}") from error

    def changed_in(self, folder: Path) -> dict[str, str]:
        """The files of an earlier run that say something else than these, each with the option that names it."""
        changed = {}
        for key, placed in self.placed.items():
            name = placed.partition(":")[0]
            file = folder / INPUTS / name
            if name in self.texts and not (file.is_file() and file.read_bytes() == self.texts[name].encode()):
                changed[key.removesuffix(".path")] = name
        return changed

    @contextmanager
    def in_words(self, folder: Path) -> Iterator[None]:
        """Errors in the block name what was passed in place of the files that it was written to."""
        try:
            yield
        except GroupwiseError as error:
            text, place = str(error), folder.absolute() / INPUTS
            for name, words in self.called.items():
                text = text.replace(str(place / name), words)
            if text == str(error):
                raise
            raise type(error)(text) from error.__cause__


def gather(
    model: Any = None,
    tokenizer: Any = None,
    problems: Any = None,
    eval_problems: Any = None,
    rewards: Rewards | None = None,
) -> Inputs:
    """What these arguments say; nothing is written. Raises UsageError that lists all that no such argument can be."""
    inputs, errors = Inputs(), list[str]()
    _add_model(inputs, model, tokenizer, errors)
    _add_problems(inputs, problems, "problems", "problems.train", errors)
    _add_problems(inputs, eval_problems, "eval_problems", "problems.eval", errors)
    resolved = resolve(rewards)
    inputs.options |= resolved.options
    inputs.texts |= resolved.texts
    inputs.placed |= resolved.placed
    inputs.called |= {path: path.partition(":")[2] for path in resolved.placed.values()}
    inputs.objects |= resolved.objects
    inputs.notes += resolved.notes
    refuse(errors + resolved.errors)
    return inputs


def refuse(errors: Sequence[str]) -> None:
    """Raise UsageError where there are any."""
    if errors:
        count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
        raise UsageError(f"{count} in the arguments:\n" + "\n".join(f"- {error}" for error in errors))


def listed_sources(config: Sources) -> list[Source]:
    """The sources one by one. Raises UsageError for what is none."""
    items: list[Any] = list(config) if isinstance(config, list | tuple) else [config]
    sources: list[Source] = []
    errors = []
    for item in items:
        source = fspath(item) if isinstance(item, PathLike) else item
        if isinstance(source, str | Mapping | TrainConfig):
            sources.append(source)
        else:
            kinds = "a recipe, a YAML file, key=value, a dict or a TrainConfig"
            errors.append(f"config: found {type(source).__name__}, expected {kinds}")
    refuse(errors)
    return sources


def composed(config: Sources, inputs: Inputs, folder: Path, overrides: Mapping[str, Any]) -> list[Source]:
    """All sources in their order, and the recipe `demo` in front where `with_default_recipe` puts it."""
    stated: list[Source] = [{key: value} for key, value in overrides.items()]
    return with_default_recipe([*listed_sources(config), *inputs.sources(folder), *stated])


def _add_model(inputs: Inputs, model: Any, tokenizer: Any, errors: list[str]) -> None:
    if tokenizer is not None and (model is None or isinstance(model, str | PathLike | Mapping)):
        errors.append("tokenizer: only a loaded model needs one; a model folder has its own")
    if model is None:
        return
    if isinstance(model, str | PathLike):
        inputs.options["model.path"] = fspath(model)
    elif isinstance(model, Mapping):
        inputs.options["model"] = model
    elif hasattr(model, "peft_config") and not _has_one_adapter(model):
        errors.append("model: found several adapters, or no PeftModel; merge them first, model.merge_and_unload()")
    elif not (hasattr(model, "save_pretrained") and hasattr(model, "config")):
        errors.append(f"model: found {type(model).__name__}, expected a path or a model of transformers")
    else:
        found = _tokenizer(model, tokenizer)
        if isinstance(found, str):
            errors.append(found)
            return
        inputs.model = (model, found)
        inputs.placed["model.path"] = "model"
        inputs.called["model"] = "the model that was passed in"
        if hasattr(model, "peft_config"):
            inputs.options["model.adapter"] = {"type": "saved"}
            inputs.placed["model.adapter.path"] = "adapter"
            inputs.called["adapter"] = "the adapters of the model that was passed in"
        inputs.notes.append(
            "model     a copy of the one that was passed in is trained, which stays as it is: run.load_model() gives "
            "the trained one"
        )


def _has_one_adapter(model: Any) -> bool:
    """Whether it is a PeftModel whose one set of adapters has peft's own name for it."""
    return hasattr(model, "get_base_model") and list(model.peft_config) == ["default"]


def _save(model: Any, tokenizer: Any, place: Path) -> None:
    """Write a model, and its adapters apart from it."""
    from groupwise.model.save import save_pretrained

    if hasattr(model, "peft_config"):
        model.save_pretrained(str(place / "adapter"), save_embedding_layers=False)
        model = copy.deepcopy(model).unload()
    save_pretrained(model, tokenizer, place / "model")


def _tokenizer(model: Any, tokenizer: Any) -> Any:
    """The tokenizer of a loaded model, or what is wrong."""
    from groupwise.model.load import load_tokenizer

    if hasattr(tokenizer, "save_pretrained"):
        return tokenizer
    if tokenizer is not None and not isinstance(tokenizer, str | PathLike):
        return f"tokenizer: found {type(tokenizer).__name__}, expected a path or a tokenizer of transformers"
    path = fspath(tokenizer) if tokenizer is not None else str(getattr(model, "name_or_path", "") or "")
    if not path:
        return "tokenizer: a loaded model needs one, and this model does not say where it came from; pass tokenizer="
    try:
        return load_tokenizer(path)[0]
    except DataError as error:
        return f"tokenizer: {error}" if tokenizer is not None else f"tokenizer: {error}; pass tokenizer="


def _add_problems(inputs: Inputs, problems: Any, argument: str, key: str, errors: list[str]) -> None:
    if problems is None:
        return
    if isinstance(problems, str | PathLike):
        inputs.options[key] = fspath(problems)
        return
    if isinstance(problems, Mapping):
        if any(hasattr(value, "column_names") for value in problems.values()):
            errors.append(f"{argument}: found the splits {', '.join(map(str, problems))}; {SPLITS}")
        else:
            inputs.options["problems" if argument == "problems" else key] = problems
        return
    if hasattr(problems, "to_dict") and hasattr(problems, "columns"):
        problems = problems.to_dict("records")
    if not isinstance(problems, Iterable):
        errors.append(f"{argument}: found {kind_of(problems)}, expected rows, a dataset, or the path of a file")
        return
    rows = list(problems)
    strange = next((number for number, row in enumerate(rows, start=1) if not isinstance(row, Mapping)), 0)
    if strange:
        found = kind_of(rows[strange - 1])
        errors.append(f"{argument}: found {found} as row {strange}, expected a dict such as {{'question', 'answer'}}")
        return
    name = "train.jsonl" if argument == "problems" else "eval.jsonl"
    inputs.texts[name] = "".join(json.dumps(plain(row)) + "\n" for row in rows)
    inputs.placed[key] = name
    inputs.called[name] = argument
