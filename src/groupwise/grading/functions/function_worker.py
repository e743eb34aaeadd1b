"""A reward function of the user's own, as its worker process loads and calls it."""

import difflib
import importlib
import importlib.util
import inspect
import math
import os
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

ENTRY_POINTS = "groupwise.rewards"
ARGUMENTS = {
    "ids": "the completion's tokens, without the one that stopped it",
    "raw_text": "its text with special tokens",
    "text": "its text without them",
    "row": "the columns of the problem's file, and id, question, answer, domain",
    "finish_reason": "'stop' or 'length'",
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
}


class LoadError(Exception):
    """The function cannot be used; the message says why and what to do."""

    failure_kind = "not_started"


class ReturnError(Exception):
    """The function returned something else than it should."""

    def __init__(self, kind: str, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.failure_kind = kind
        self.failure_data = data


def load(init: dict[str, Any]) -> Callable[[list[dict[str, Any]]], list[float]]:
    """The handler of a worker: a list of samples to a list of as many numbers.

    init: `path` of the function, and `call`, which is `sample` (the list then has one) or `batch`.
    Raises LoadError.
    """
    return handler(find(init["path"]), init["path"], init["call"])


def handler(function: Callable[..., Any], path: str, call: str) -> Callable[[list[dict[str, Any]]], list[float]]:
    """As `load`, of a function that is here already; `path` names it in messages."""
    names = wanted_arguments(function, path)
    batch = call == "batch"
    runner: list[Any] = []

    def handle(samples: list[dict[str, Any]]) -> list[float]:
        if batch:
            arguments: dict[str, Any] = {name: [sample[name] for sample in samples] for name in names}
        else:
            arguments = {name: samples[0][name] for name in names}
        value = function(**arguments)
        if inspect.isawaitable(value):
            value = _wait_for(value, runner)
        return numbers(value, len(samples)) if batch else [number(value)]

    return handle


def find(path: str) -> Callable[..., Any]:
    """The function at `package.module:function` or `file.py:function`, or an entry point. Raises LoadError."""
    place, colon, name = path.rpartition(":")
    if not colon:
        return _entry_point(path)
    if not place or not name:
        raise LoadError(f"{path!r} should read package.module:function or file.py:function")
    module = _file(place) if place.endswith(".py") else _module(place)
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            functions = [key for key, item in vars(module).items() if inspect.isroutine(item)]
            near = difflib.get_close_matches(part, functions, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(functions) or 'no function'}"
            raise LoadError(f"{place} has no {part!r}{hint}")
        value = getattr(value, part)
    if not callable(value):
        raise LoadError(f"{path} is not a function but {type(value).__name__}")
    function: Callable[..., Any] = value
    return function


def wanted_arguments(function: Callable[..., Any], path: str) -> list[str]:
    """The names of ARGUMENTS that the function takes. Raises LoadError if it needs any other."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise LoadError(f"the signature of {path} cannot be read; wrap it in a function of Python") from None
    names, strange = [], []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            names = list(ARGUMENTS)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            continue
        elif parameter.name in ARGUMENTS and parameter.kind is not parameter.POSITIONAL_ONLY:
            names.append(parameter.name)
        elif parameter.default is parameter.empty:
            strange.append(parameter.name)
    if strange:
        instead = [f"{name} is {meant}" for name in strange if (meant := _meant_by(name))]
        raise LoadError(
            f"{path} wants {', '.join(strange)}, which a reward function is not given. It can take, by name: "
            + "; ".join(f"{name} ({what})" for name, what in ARGUMENTS.items())
            + (f". Here {', '.join(instead)}" if instead else "")
            + ". Give any other parameter a default"
        )
    return list(dict.fromkeys(names))


def _meant_by(name: str) -> str:
    """What a reward function is given instead of an argument that it names; empty where nobody can tell."""
    near = difflib.get_close_matches(name, ARGUMENTS, 1)
    return _ELSEWHERE.get(name, near[0] if near else "")


def number(value: Any) -> float:
    """A finite number, NumPy's and others included. Raises ReturnError with the kind `bad_type` or `not_finite`."""
    if isinstance(value, str | bytes | bytearray) or not hasattr(type(value), "__float__"):
        hint = "; return 0.0 for a completion without an answer" if value is None else ""
        raise ReturnError("bad_type", f"returned {_shown(value)}, where a number was expected{hint}")
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ReturnError("bad_type", f"returned {_shown(value)}, where a number was expected: {error}") from None
    if not math.isfinite(result):
        raise ReturnError("not_finite", f"returned {result}, where a finite number was expected")
    return result


def numbers(value: Any, count: int) -> list[float]:
    """Exactly `count` finite numbers. Raises ReturnError.

    Where only some of them are wrong, its data lists for each one its number, or its kind of failure and the message.
    """
    if isinstance(value, str | bytes | dict | set | frozenset) or not hasattr(value, "__len__"):
        raise ReturnError("bad_type", f"returned {_shown(value)}, where a list of {count} numbers was expected")
    try:
        items = list(value)
    except TypeError:
        raise ReturnError("bad_type", f"returned {_shown(value)}, where a list was expected") from None
    if len(items) != count:
        raise ReturnError("wrong_length", f"returned {len(items)} numbers for {count} completions")
    results: list[Any] = []
    for item in items:
        try:
            results.append(number(item))
        except ReturnError as error:
            results.append([error.failure_kind, str(error)])
    for place, result in enumerate(results):
        if isinstance(result, list):
            raise ReturnError(result[0], f"at place {place} of {count}, {result[1]}", results)
    return results


def _wait_for(value: Any, runner: list[Any]) -> Any:
    """One event loop for the life of the process, so that clients that the function keeps stay usable."""
    import asyncio

    async def finish() -> Any:
        return await value

    if not runner:
        runner.append(asyncio.Runner())
    return runner[0].run(finish())


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (name == missing or name.startswith(f"{missing}.")):
            raise LoadError(
                f"there is no module {missing!r}. It is looked for in the current directory, {os.getcwd()}, in "
                "PYTHONPATH and among the installed packages"
            ) from None
        raise LoadError(_import_failure(name, error)) from None


def _file(name: str) -> ModuleType:
    path = os.path.abspath(name)
    if not os.path.isfile(path):
        raise LoadError(f"there is no file {name} (looked for at {path})")
    sys.path.insert(0, os.path.dirname(path))
    module_name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise LoadError(_import_failure(name, error)) from None
    return module


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


def _import_failure(name: str, error: BaseException) -> str:
    last = "".join(traceback.format_exception_only(error)).strip()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    place = next((f" ({f.filename}:{f.lineno})" for f in reversed(frames) if f.filename != __file__), "")
    return f"{name} cannot be imported: {last}{place}"


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
