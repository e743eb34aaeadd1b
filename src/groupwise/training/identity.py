"""What makes a run the one that it is: its options, and the content of the files that these name."""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from groupwise import __version__
from groupwise.config import TrainConfig
from groupwise.data.files import ProblemFile
from groupwise.errors import DataError, UsageError, listed
from groupwise.findings import shown
from groupwise.objective.own.bind import own_sources
from groupwise.own_code import OBJECT
from groupwise.ranks import Ranks

# What a resumed run may change unasked: how long it is, what it writes, when it gives up, and where it is found.
RESUMABLE = (
    "run.steps",
    "run.checkpoint_every_steps",
    "run.keep_checkpoints",
    "run.rollouts_every_steps",
    "run.rollouts_max_megabytes",
    "run.trackers",
    "run.deadline_seconds",
    "model.shard",
    "guards",
)
_OF_THE_START = ("run.output", "run.resume", "run.stop_after")

# Facts that only the loaded model and the chosen problems tell, each with the option that it belongs to.
_LOADED = {
    "initial_weights": ("model.path", "the weights of the model that the run began with"),
    "tokenizer": ("model.path", "the tokens of the model's tokenizer"),
    "chat_template": ("prompt.template", "the chat template"),
    "problems": ("problems.train", "the problems that are trained on"),
    "eval_problems": ("problems.eval", "the problems that are measured on"),
    "device": ("model.device", "the kind of device, and with it the rounding"),
}


@dataclass(frozen=True)
class Difference:
    """Something that is not what it was when a run began: the option that it belongs to, and what it is."""

    key: str
    text: str
    is_option: bool = False

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


def of_files(config: TrainConfig, files: Mapping[str, ProblemFile]) -> dict[str, Any]:
    """The facts that no model is needed for: what is in the problem files, and in code of the user's own."""
    return {
        "problem_files": {name: file.fingerprint for name, file in files.items()},
        "own_code": {path: _source_digest(path) for _, path in _code_paths(config.model_dump())} | own_sources(config),
    }


def of_tokenizer(tokenizer: PreTrainedTokenizerBase, file: str) -> dict[str, str]:
    """The facts of a tokenizer: which tokens it has, and its chat template or the one in `file`, where there is one."""
    return {
        "tokenizer": _digest(sorted(tokenizer.get_vocab().items())),
        "chat_template": _digest(Path(file).read_text(encoding="utf-8") if file else tokenizer.chat_template),
    }


def agree(facts: Mapping[str, Any], ranks: Ranks) -> None:
    """Compare what every rank has to have alike.

    Raises:
        DataError: on every rank, naming what differs and on which.
    """
    if len(set(ranks.gather(_digest(facts), "the comparison of the ranks"))) == 1:
        return
    everywhere = ranks.gather(dict(_flat(json.loads(json.dumps(facts)))), "the differences of the ranks")
    lines = []
    for key in dict.fromkeys(key for own in everywhere for key in own):
        shown_by = [shown(own[key]) if key in own else "not there" for own in everywhere]
        odd = next((rank for rank, text in enumerate(shown_by) if text != shown_by[0]), None)
        if odd is not None:
            lines.append(f"{key}: {shown_by[0]} on rank 0, {shown_by[odd]} on rank {odd}")
    raise DataError("\n".join(["the ranks of a run have to begin alike, and these differ:", *listed(lines)]))


def versions() -> dict[str, str]:
    """Of what computes a step."""
    named = ("torch", "transformers", "tokenizers", "numpy", "safetensors")
    return {"groupwise": __version__, **{name: metadata.version(name) for name in named}}


def option_differences(began: Mapping[str, Any], config: TrainConfig) -> list[Difference]:
    """The options that a run would compute something else with than it began with. began: their tree."""
    before, now = (dict(_flat(json.loads(json.dumps(tree)))) for tree in (began, config.model_dump()))
    found = []
    for key in dict.fromkeys([*before, *now]):
        texts = [shown(values[key]) if key in values else "not there" for values in (before, now)]
        difference = Difference(key, f"{texts[0]} when the run began, now {texts[1]}", is_option=True)
        same = key in before and key in now and before[key] == now[key]
        if not same and not is_allowed(difference, (*RESUMABLE, *_OF_THE_START)):
            found.append(difference)
    return found


def file_differences(began: Mapping[str, Any], now: Mapping[str, Any], config: TrainConfig) -> list[Difference]:
    """The files whose content changed, of what `of_files` says of both; what was not recorded counts as the same."""
    found = []
    before = began.get("problem_files", {})
    for name, digest in now["problem_files"].items():
        if before.get(name, digest) != digest:
            key = "problems.train" if name in config.problems.train_sources else "problems.eval"
            found.append(Difference(key, f"the problems in {name}"))
    before = began.get("own_code", {})
    for key, path in _code_paths(config.model_dump()):
        digest = now["own_code"][path]
        if before.get(path, digest) != digest:
            found.append(Difference(key, f"the source of {path} (sha256 {before[path][:12]}, now {digest[:12]})"))
    return found


def loaded_differences(
    began: Mapping[str, Any], now: Mapping[str, Any], known: Sequence[Difference]
) -> list[Difference]:
    """What else changed, when all is loaded; what is known already is not said again."""
    keys = {difference.key for difference in known if not difference.is_option}
    changed = [name for name in _LOADED if name in began and began[name] != now[name]]
    return [Difference(*_LOADED[name]) for name in changed if _LOADED[name][0] not in keys]


def refuse(path: Path, differences: Sequence[Difference], allowed: Sequence[str]) -> None:
    """Raise an error that lists all differences that are not named as wanted, if there are any.

    allowed: options or sections, as in `optimizer.lr`, `problems`.
    """
    refused = [difference for difference in differences if not is_allowed(difference, allowed)]
    if not refused:
        return
    lines = "".join(f"\n- {difference}" for difference in refused)
    keys = ",".join(dict.fromkeys(difference.key for difference in refused))
    kind = UsageError if all(difference.is_option for difference in refused) else DataError
    raise kind(
        f"a resumed run keeps its configuration and what it began with, but for {', '.join(RESUMABLE)}. Of the run in "
        f"'{path}' this changed:{lines}\nPut it back, or resume with what is named as wanted: --allow-change {keys}, "
        f"in Python allow_changes={keys.split(',')!r}"
    )


def is_allowed(difference: Difference, allowed: Sequence[str]) -> bool:
    """Whether a change was named as wanted, by its option or a section that it is in."""
    return any(f"{difference.key}.".startswith(f"{name}.") for name in allowed)


def _flat(tree: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict) and tree and above != "problems.train":
        for name, value in tree.items():
            yield from _flat(value, f"{above}.{name}" if above else str(name))
    else:
        yield above, tree


def _code_paths(tree: Any) -> Iterator[tuple[str, str]]:
    """The options that name code of the user's own, without the `path` at the end, and what they say."""
    for key, value in _flat(tree):
        if key.endswith(".path") and key not in ("model.path", "model.adapter.path") and isinstance(value, str):
            yield key.removesuffix(".path"), value


def _source_digest(path: str) -> str:
    """Of the file that holds code, found without importing anything; empty where there is none."""
    place = path.rpartition(":")[0]
    found = [Path(place)] if place.endswith(".py") else []
    if place not in ("", OBJECT) and not found:
        module = Path(*place.split("."))
        places = [folder / module for folder in (Path.cwd(), *map(Path, sys.path))]
        found = [file for at in places for file in (at.with_name(f"{at.name}.py"), at / "__init__.py")]
    file = next((file for file in found if file.is_file()), None)
    return "" if file is None else hashlib.sha256(file.read_bytes()).hexdigest()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
