"""The functions, methods and modules of the test language."""

import itertools
import math
import string
from collections.abc import Callable
from random import Random
from typing import Any

from groupwise.grading.code.language.operations import (
    LARGEST_LENGTH,
    PLAIN,
    Budget,
    UnsupportedError,
    refuse_collisions,
    size_of,
)

# The draws of tests that name no seed, so that a file always gives the same tests.
_SEED = "draws of tests without a seed"
_LARGEST_COMBINATORIC = 1000


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Draws(Random):
    """`random.Random` of the test language."""


def _joined_length(separator: Any, parts: Any) -> int:
    return sum(len(part) for part in parts if isinstance(part, (str, bytes))) + len(separator) * len(parts)


def copied(value: Any) -> Any:
    """A copy that shares nothing with the value."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(copied(item) for item in value)
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value


def _counted(values: Any) -> dict[Any, int]:
    counts: dict[Any, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


def _total(values: Any, start: Any = 0) -> Any:
    items = list(values)
    if not all(isinstance(item, (int, float, complex)) for item in (*items, start)):
        raise UnsupportedError("a sum of other things than numbers")
    return sum(items, start)


def _small(function: Callable[..., int]) -> Callable[..., int]:
    def bounded(*values: int) -> int:
        if any(value > _LARGEST_COMBINATORIC for value in values):
            raise UnsupportedError(f"a factorial or binomial above {_LARGEST_COMBINATORIC}")
        return function(*values)

    return bounded


# Types stand for themselves, so that isinstance and calls share one name.
TYPES = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
BUILTINS: dict[str, Any] = {
    **{kind.__name__: kind for kind in TYPES},
    **{function.__name__: function for function in (abs, len, round, ord, chr, bin, hex, oct, all, any, divmod)},
    "range": range,
    "sum": _total,
    "enumerate": lambda values, start=0: list(enumerate(values, start)),
    "zip": lambda *values: list(zip(*values, strict=False)),
    "iter": lambda values: values,
    "next": lambda values, *default: next(iter(values), *default),
    "reversed": lambda values: list(reversed(values)),
    "isinstance": isinstance,
    "print": lambda *_, **__: None,
}
# Those that may be given a function.
ORDERING: dict[str, Callable[..., Any]] = {"sorted": sorted, "min": min, "max": max}

MODULES: dict[str, dict[str, Any]] = {
    "math": {
        **{
            name: getattr(math, name)
            for name in _words(
                "pi e inf nan tau sqrt pow fabs floor ceil trunc exp log log2 log10 sin cos tan asin acos atan atan2"
                " sinh cosh tanh hypot degrees radians isclose isnan isinf isfinite gcd copysign fsum"
            )
        },
        "factorial": _small(math.factorial),
        "comb": _small(math.comb),
        "perm": _small(math.perm),
    },
    "string": {name: getattr(string, name) for name in _words("ascii_lowercase ascii_uppercase ascii_letters digits")},
    "copy": {"copy": copied, "deepcopy": copied},
    "collections": {"Counter": _counted},
    "itertools": {"islice": lambda values, *bounds: list(itertools.islice(values, *bounds))},
    "random": {"Random": Draws, **dict.fromkeys(("seed",))},
    "cmath": {},
}
DRAWS = ("randint", "randrange", "choice", "random", "uniform", "sample", "shuffle", "choices", "seed")

_TEXT_METHODS = (
    "lower upper strip lstrip rstrip split rsplit splitlines startswith endswith find rfind index count isdigit isalpha"
    " isalnum isupper islower isspace title capitalize swapcase"
)
METHODS: dict[type, frozenset[str]] = {
    str: _words(_TEXT_METHODS + " join replace"),
    bytes: _words(_TEXT_METHODS + " join"),
    list: _words("append extend insert pop remove sort reverse index count copy"),
    tuple: _words("index count"),
    dict: _words("keys values items get copy pop update setdefault"),
    set: _words("add discard remove union intersection difference issubset issuperset copy update"),
    frozenset: _words("union intersection difference issubset issuperset"),
    float: _words("is_integer"),
}
_HASHING = (set, frozenset, dict, _counted)
_CHEAP = _words("append add get pop discard setdefault randint random uniform choice")


def fresh_draws() -> Draws:
    """The generator behind `random.randint` and its like in one set of tests."""
    return Draws(_SEED)


def call_plain(function: Any, args: list[Any], kwargs: dict[str, Any], budget: Budget) -> Any:
    """A function of the library on plain values. Raises UnsupportedError, or what the function raises."""
    for value in itertools.chain(args, kwargs.values()):
        if type(value) not in PLAIN and not _is_type(value):
            raise UnsupportedError(f"{type(value).__name__} as an argument")
        budget.charge(size_of(value))
    if function in _HASHING:
        refuse_collisions(args[0] if args else ())
    if function is bytes and args and isinstance(args[0], int):
        raise UnsupportedError("bytes of a length")
    result = function(*args, **kwargs)
    budget.charge(size_of(result) if function is not range else 1)
    return result


def call_method(value: Any, name: str, args: list[Any], kwargs: dict[str, Any], budget: Budget) -> Any:
    """A method of a plain value or of a generator of draws. Raises UnsupportedError, or what the method raises."""
    if type(value) is Draws:
        if name not in DRAWS:
            raise UnsupportedError(f"random.{name}")
        if name in ("choices", "sample") and any(isinstance(n, int) and n > 10_000 for n in (*args, *kwargs.values())):
            raise UnsupportedError("more than 10000 draws")
    elif name not in METHODS.get(type(value), ()):
        raise UnsupportedError(f"the method {type(value).__name__}.{name}")
    budget.charge(1 if name in _CHEAP else size_of(value) + sum(size_of(arg) for arg in args))
    if name == "join":
        args = [list(args[0])] if args else args
        _check_length(_joined_length(value, args[0]) if args else 0)
    if name == "replace" and len(args) > 1:
        _check_length((len(value) + 1) * max(1, size_of(args[1])))
    if name == "sort" and kwargs.keys() - {"reverse"}:
        raise UnsupportedError("list.sort with a key")
    if isinstance(value, (set, frozenset)):
        for arg in args:
            refuse_collisions(arg)
    result = getattr(value, name)(*args, **kwargs)
    return list(result) if isinstance(value, dict) and name in ("keys", "values", "items") else result


def _is_type(value: Any) -> bool:
    return isinstance(value, type) and value in TYPES


def _check_length(length: int) -> None:
    if length > LARGEST_LENGTH:
        raise UnsupportedError(f"a text of more than {LARGEST_LENGTH} characters")
