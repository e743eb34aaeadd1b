"""Reward functions that a program passes as objects, as options that a configuration can hold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any

from groupwise.grading.functions.in_process import IN_PROCESS
from groupwise.grading.functions.portable import NotPortableError, source_of
from groupwise.grading.reward_options import RewardOptions
from groupwise.own_code import path_of

Function = Callable[..., Any]
Reward = Function | str | PathLike[str] | tuple[Function | str | PathLike[str], float]
Rewards = Reward | Sequence[Reward] | Mapping[str, Any]
"""Functions, paths FILE.py:NAME, either in a pair with its weight, or all of these by the names of components."""


@dataclass
class Resolved:
    """options: by dotted key. files: of which text, and the option that is its path with what follows the name.

    objects: functions that only this process can call. notes: on these, for people. errors: what no reward is.
    """

    options: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    placed: dict[str, str] = field(default_factory=dict)
    objects: dict[str, Function] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


def resolve(rewards: Rewards | None) -> Resolved:
    """What the argument `rewards` says."""
    resolved = Resolved()
    for place, name, value in _entries(rewards):
        stated = dict(value) if isinstance(value, Mapping) and "path" in value else {}
        if isinstance(value, tuple) and len(value) == 2:
            stated = {"path": value[0], "weight": value[1]}
        function = stated.pop("path", value)
        if isinstance(function, PathLike):
            function = fspath(function)
        is_option = name in RewardOptions.model_fields and not callable(function)
        if isinstance(value, Mapping) and not stated and function is value:
            is_option = True
        if name and (is_option or not (callable(function) or isinstance(function, str))):
            resolved.options[f"rewards.{name}"] = value
        elif callable(function) or isinstance(function, str):
            _add(resolved, place, name or _name(function, len(resolved.names)), function, stated)
        else:
            resolved.errors.append(
                f"{place}: found {type(function).__name__}, expected a function, FILE.py:NAME, or a pair of one of "
                "them and its weight"
            )
    return resolved


def _entries(rewards: Any) -> Iterator[tuple[str, str, Any]]:
    """Each with its place in the argument, and its name where it has one."""
    if rewards is None:
        return
    if isinstance(rewards, Mapping):
        yield from ((f"rewards[{str(name)!r}]", str(name), value) for name, value in rewards.items())
        return
    pair = isinstance(rewards, tuple) and len(rewards) == 2 and isinstance(rewards[1], int | float)
    several = isinstance(rewards, Sequence) and not isinstance(rewards, str) and not pair
    for index, value in enumerate(rewards if several else [rewards]):
        yield f"rewards[{index}]" if several else "rewards", "", value


def _name(function: Function | str, count: int) -> str:
    named = function.rpartition(":")[2] if isinstance(function, str) else getattr(function, "__name__", "")
    return named if str(named).isidentifier() else f"reward_{count + 1}"


def _add(resolved: Resolved, place: str, name: str, function: Function | str, stated: dict[str, Any]) -> None:
    key = f"rewards.functions.{name}"
    if name in resolved.names:
        resolved.errors.append(f"{place}: a second reward named {name}; name them, as in rewards={{'{name}_2': ...}}")
        return
    resolved.names.append(name)
    resolved.options |= {f"{key}.{option}": value for option, value in stated.items()}
    if isinstance(function, str):
        resolved.options[f"{key}.path"] = function
        return
    path = path_of(function)
    if path:
        resolved.options[f"{key}.path"] = path
        return
    try:
        text = source_of(function, name)
    except NotPortableError as error:
        resolved.options[f"{key}.path"] = f"{IN_PROCESS}{name}"
        resolved.objects[name] = function
        resolved.notes.append(
            f"reward function {name} runs in this process, with no deadline, no limit on memory and one call at a "
            f"time, because {error}; as a plain function in a file of its own it runs in worker processes"
        )
    else:
        # A module named like the function alone could hide one of Python's.
        resolved.texts[f"function_{name}.py"] = text
        resolved.placed[f"{key}.path"] = f"function_{name}.py:{name}"
