"""A reward function of the user's own, as its worker process loads and calls it."""

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from groupwise import own_code
from groupwise.grading.functions.returned import Returns, a_number, listed, spans
from groupwise.own_code import LoadError

ENTRY_POINTS = "groupwise.rewards"
ARGUMENTS = {
    "ids": "the completion's tokens, without the one that stopped it",
    "raw_text": "its text with special tokens",
    "text": "its text without them",
    "row": "the columns of the problem's file, and id, question, answer, domain",
    "finish_reason": "'stop' or 'length'",
}
OF_RUN = {
    "step": "the step of the run, from 1",
    "progress": "how far the run is, from 0 in its first step to 1 in its last",
}
_ELSEWHERE = {
    **{column: f"row['{column}']" for column in ("answer", "question", "id", "domain")},
    "prompt": "row['question']",
    "prompts": "row['question']",
    "completion": "text",
    "completions": "text",
    "completion_ids": "ids",
    "ground_truth": "row['answer']",
    "solution": "row['answer']",
    "global_step": "step",
    "trainer_state": "step and progress",
}


def load(init: dict[str, Any]) -> Callable[[list[dict[str, Any]]], list[Any]]:
    """The handler of a worker: a list of samples to a list of as many numbers, or lists of spans.

    init: `path` of the function, `call`, which is `sample` (the list then has one) or `batch`, and what it `returns`.
    Raises LoadError.
    """
    return handler(find(init["path"]), init["path"], init["call"], init["returns"])


def handler(
    function: Callable[..., Any], path: str, call: str, returns: Returns
) -> Callable[[list[dict[str, Any]]], list[Any]]:
    """As `load`, of a function that is here already; `path` names it in messages."""
    names = wanted_arguments(function, path)
    batch = call == "batch"
    runner: list[Any] = []

    def read(value: Any, sample: dict[str, Any]) -> Any:
        """What the function returned for one sample, as data."""
        if returns == "number":
            return a_number(value)
        return {"spans": spans(value, len(sample["text" if returns == "character_spans" else "ids"]), returns)}

    def handle(samples: list[dict[str, Any]]) -> list[Any]:
        if batch:
            arguments: dict[str, Any] = {
                name: samples[0][name] if name in OF_RUN else [sample[name] for sample in samples] for name in names
            }
        else:
            arguments = {name: samples[0][name] for name in names}
        value = function(**arguments)
        if inspect.isawaitable(value):
            value = _wait_for(value, runner)
        return listed(value, samples, returns, read) if batch else [read(value, samples[0])]

    return handle


def find(path: str) -> Callable[..., Any]:
    """The function at `package.module:function` or `file.py:function`, or an entry point. Raises LoadError."""
    function: Callable[..., Any] = own_code.find(path) if ":" in path else _entry_point(path)
    return function


def wanted_arguments(function: Callable[..., Any], path: str) -> list[str]:
    """The names of ARGUMENTS and OF_RUN that the function takes. Raises LoadError if it needs any other.

    Those of OF_RUN only where it names them: what takes anything by `**` did so before there were any.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise LoadError(f"the signature of {path} cannot be read; wrap it in a function of Python") from None
    names, strange = [], []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            names += list(ARGUMENTS)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            continue
        elif parameter.name in ARGUMENTS | OF_RUN and parameter.kind is not parameter.POSITIONAL_ONLY:
            names.append(parameter.name)
        elif parameter.default is parameter.empty:
            strange.append(parameter.name)
    if strange:
        instead = [f"{name} is {meant}" for name in strange if (meant := _meant_by(name))]
        raise LoadError(
            f"{path} wants {', '.join(strange)}, which a reward function is not given. It can take, by name: "
            + "; ".join(f"{name} ({what})" for name, what in (ARGUMENTS | OF_RUN).items())
            + (f". Here {', '.join(instead)}" if instead else "")
            + ". Give any other parameter a default"
        )
    return list(dict.fromkeys(names))


def _meant_by(name: str) -> str:
    """What a reward function is given instead of an argument that it names; empty where nobody can tell."""
    near = difflib.get_close_matches(name, ARGUMENTS | OF_RUN, 1)
    return _ELSEWHERE.get(name, near[0] if near else "")


def _wait_for(value: Any, runner: list[Any]) -> Any:
    """One event loop for the life of the process, so that clients that the function keeps stay usable."""
    import asyncio

    async def finish() -> Any:
        return await value

    if not runner:
        runner.append(asyncio.Runner())
    return runner[0].run(finish())


def _entry_point(name: str) -> Callable[..., Any]:
    from importlib.metadata import entry_points

    known = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in known:
        if name.endswith(".py"):
            raise LoadError(f"{name!r} names a file and no function in it; expected {name}:FUNCTION")
        raise LoadError(
            f"there is no entry point {name!r} in the group {ENTRY_POINTS}; installed packages have "
            f"{', '.join(sorted(known)) or 'none'}. A function of your own reads package.module:function or "
            "file.py:function"
        )
    return find(known[name].value)
