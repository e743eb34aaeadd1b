"""Values keep their exact type on the way out of a sandbox, and hostile bytes do no harm."""

import collections
import itertools
import math
import time
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupwise.grading.sandbox.wire_values import DEPTH, FRACTION_BITS, ForeignError, Items, decode, encode

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(1 << 4000), max_value=1 << 4000)
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters())
    | st.binary()
)
hashable = st.recursive(scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4), max_leaves=8)
values = st.recursive(
    hashable,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(hashable, max_size=4)
        | st.dictionaries(hashable, inner, max_size=4)
    ),
    max_leaves=30,
)


def shape(value: Any) -> Any:
    """A value spelled out with all types, so that 1, True and 1.0, or 0.0 and -0.0, are not equal."""
    kind = type(value)
    if kind is float:
        return (kind, "nan" if math.isnan(value) else value.hex())
    if kind is complex:
        return (kind, shape(value.real), shape(value.imag))
    if kind in (list, tuple):
        return (kind, [shape(item) for item in value])
    if kind in (set, frozenset):
        return (kind, sorted(repr(shape(item)) for item in value))
    if kind is dict:
        return (kind, sorted(repr((shape(key), shape(item))) for key, item in value.items()))
    return (kind, value)


@settings(max_examples=60, deadline=None)
@given(values)
def test_round_trip_keeps_value_and_type(value: Any) -> None:
    assert repr(shape(decode(encode(value)))) == repr(shape(value))


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        255,
        True,
        False,
        0.0,
        -0.0,
        math.inf,
        -math.inf,
        math.nan,
        1j,
        "",
        "\ud800é\0",
        b"\xff",
        (),
        [],
        {},
        set(),
    ],
)
def test_edges(value: Any) -> None:
    assert shape(decode(encode(value))) == shape(value)


class Sly(int):
    """Looks like the integer that it was made of."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Words(str):
    """A string with a name."""

    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [Sly(42), [Sly(1)], object(), bytearray(b"x"), int, range, lambda: 1, [object()], iter([object()])],
)
def test_everything_else_is_foreign(value: Any) -> None:
    with pytest.raises(ForeignError):
        encode(value)


class Pair(NamedTuple):
    x: int
    y: int


class Liar(tuple[int, ...]):
    """Shows other items than it holds."""

    def __iter__(self) -> Iterator[int]:
        return iter((1, 2))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Words("42"), "42"),
        ({Words("a"): 1}, {"a": 1}),
        (Pair(1, 2), (1, 2)),
        (Liar((3, 4)), (3, 4)),
        (Decimal("0.25"), Fraction(1, 4)),
        (Fraction(-2, 3), Fraction(-2, 3)),
        (range(3, 9, 2), range(3, 9, 2)),
        (Decimal("Infinity"), math.inf),
    ],
)
def test_what_compares_as_a_plain_value_is_written_as_one(value: Any, plain: Any) -> None:
    found = decode(encode(value))
    assert (found, type(found)) == (plain, type(plain))


def test_iterators_and_views_are_told_from_lists() -> None:
    for value in (iter([1, 2]), (x for x in (1, 2)), collections.deque([1, 2]), {1: 3, 2: 4}.keys(), map(int, "12")):
        found = decode(encode(value))
        assert isinstance(found, Items)
        assert repr(found) != repr([1, 2])
        assert list(found) == [1, 2]
    assert len(decode(encode(collections.deque([1, 2])))) == 2
    with pytest.raises(TypeError, match="no length"):
        len(decode(encode(iter([1]))))
    endless = decode(encode(itertools.count()))
    assert next(iter(endless)) == 0
    with pytest.raises(ValueError, match="more than 10000 items"):
        list(endless)


@pytest.mark.parametrize(
    "data",
    [
        b"q" + encode((1, 0)),
        b"q" + encode((1, 1 << FRACTION_BITS + 1)),
        b"R" + encode((1, 2, 0)),
        b"R" + encode((1,)),
        b"R" + encode((0, 1 << 70, 1)),
        b"I" + encode(("x", 1, [])),
        b"I" + encode([1]),
    ],
)
def test_hostile_parts_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not an encoded value"):
        decode(data)


def test_dictionaries_of_the_library_count_as_what_they_hold() -> None:
    ordered = collections.OrderedDict([("b", 1), ("a", 2)])
    default = collections.defaultdict(list, {1: [2]})
    for value, plain in (
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (ordered, {"b": 1, "a": 2}),
        (default, {1: [2]}),
    ):
        result = decode(encode(value))
        assert type(result) is dict
        assert list(result.items()) == list(plain.items())


def test_depth_is_bounded_on_both_sides() -> None:
    value: list[Any] = []
    for _ in range(DEPTH - 1):
        value = [value]
    assert decode(encode(value)) == value
    with pytest.raises(ForeignError):
        encode([value])
    with pytest.raises(ValueError, match="too deep"):
        decode(b"l1:" * 100_000 + b"N")


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    try:
        value = decode(data)
    except ValueError:
        value = None
    assert repr(decode(encode(value))) == repr(value)


@settings(max_examples=60, deadline=None)
@given(values, st.integers(0), st.integers(0, 255), st.integers(0))
def test_damaged_bytes_are_refused_or_read(value: Any, where: int, byte: int, end: int) -> None:
    encoded = bytearray(encode(value))
    encoded[where % len(encoded)] = byte
    try:
        damaged = decode(bytes(encoded[: end % (len(encoded) + 1)]))
    except ValueError:
        damaged = None
    assert repr(decode(encode(damaged))) == repr(damaged)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"q",
        b"i",
        b"i;",
        b"f;",
        b"f1,2;",
        b"s9:ab",
        b"l3:NN",
        b"NN",
        b"S1:l0:",
        b"d1:N",
        b"s-1:a",
        b"l99999999999:",
    ],
)
def test_what_encode_does_not_write_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(data)


def test_keys_of_one_hash_do_not_hold_us_up() -> None:
    # Hashes of integers are remainders by 2^61 - 1: these are all zero.
    keys = [i * ((1 << 61) - 1) for i in range(1, 30_000)]
    data = b"S%d:" % len(keys) + b"".join(encode(key) for key in keys)
    began = time.monotonic()
    with pytest.raises(ValueError, match="one hash"):
        decode(data)
    assert time.monotonic() - began < 2
