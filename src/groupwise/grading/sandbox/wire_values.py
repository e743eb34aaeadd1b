"""Python values as bytes that keep the exact type of everything.

The parent and the sandboxed harness both use this file; in the harness it is read as text, so it imports nothing. What
is decoded was written by a program that nobody has read: decoding runs nothing, is bounded by the length of the bytes,
and raises ValueError for anything that `encode` does not write.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DEPTH = 200
COLLISIONS = 1000
LETTERS: "dict[type, bytes]" = {list: b"l", tuple: b"t", set: b"S", frozenset: b"Z"}
# The plain value in an instance of a subclass, whatever methods that has. Not of int: a number that counts is plain.
PLAIN_OF: "dict[type, Any]" = {
    float: float.__float__,
    str: lambda value: str.__str__(value),
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    list: lambda value: list(list.__iter__(value)),
    dict: lambda value: dict(dict.items(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
}
# Dictionaries of the standard library that count as what they hold.
DICTS = ("collections.Counter", "collections.OrderedDict")
ITERABLE = ("collections.deque", "builtins.dict_keys", "builtins.dict_values", "builtins.dict_items")


# Of what one iterator gives.
MOST_ITEMS = 10_000
FRACTION_BITS = 100_000


class Items:
    """What something else than a list holds, in its order: an iterator, a deque, the keys of a dictionary.

    kind: the name of its type. Equal to nothing but itself; a test has to say `list(result)` or the like.
    """

    def __init__(self, kind: str, items: "list[Any]", cut: bool = False) -> None:
        self.kind = kind
        self.items = items
        self.cut = cut

    def __repr__(self) -> str:
        return f"{self.kind} of {self.items}"

    def __len__(self) -> int:
        if self.kind not in ITERABLE:
            raise TypeError(f"a {self.kind} has no length")
        return len(self.items)

    def __iter__(self) -> "Iterator[Any]":
        yield from self.items
        if self.cut:
            raise ValueError(f"more than {MOST_ITEMS} items of a {self.kind}")


class ForeignError(ValueError):
    """A value that is not made of exact builtins; the text says what it is."""


def encode(value: "Any", depth: int = 0) -> bytes:
    """The bytes of None, bool, int, float, complex, str, bytes, and list, tuple, set, frozenset, dict of such.

    A subclass that compares as its base does is written as that, as a named tuple; a fraction or a decimal number as a
    fraction; a range, an iterator, a deque or a view of a dictionary as what it is, with what it holds. Raises
    ForeignError for everything else: other objects, nesting deeper than 200.
    """
    kind = type(value)
    if value is None:
        return b"N"
    if value is True:
        return b"T"
    if value is False:
        return b"F"
    if kind is int:
        return b"i%b;" % format(value, "x").encode()
    if kind is float:
        return b"f%b;" % value.hex().encode()
    if kind is complex:
        return b"c%b,%b;" % (value.real.hex().encode(), value.imag.hex().encode())
    if kind is str or kind is bytes:
        data = value if kind is bytes else value.encode("utf-8", "surrogatepass")
        return b"%b%d:%b" % (b"b" if kind is bytes else b"s", len(data), data)
    if depth >= DEPTH:
        raise ForeignError("a value nested more than 200 deep")
    letter = LETTERS.get(kind)
    if letter is not None:
        return b"%b%d:" % (letter, len(value)) + b"".join([encode(item, depth + 1) for item in value])
    if kind is dict:
        parts = [encode(item, depth + 1) for pair in value.items() for item in pair]
        return b"d%d:" % len(value) + b"".join(parts)
    return _encode_other(value, kind, depth)


def _encode_other(value: "Any", kind: type, depth: int) -> bytes:
    name = kind.__module__ + "." + kind.__qualname__
    if kind is range:
        return b"R" + encode((value.start, value.stop, value.step), depth)
    if name in DICTS and issubclass(kind, dict):
        return encode(dict(dict.items(value)), depth)
    for base, plain in PLAIN_OF.items():
        if issubclass(kind, base) and getattr(kind, "__eq__", None) is getattr(base, "__eq__", None):
            return encode(plain(value), depth)
    if name in ("fractions.Fraction", "decimal.Decimal"):
        try:
            parts = value.as_integer_ratio()
        except (OverflowError, ValueError):
            # Infinity and NaN of decimal.
            return encode(float(value))
        if all(type(part) is int and part.bit_length() <= FRACTION_BITS for part in parts):
            return b"q" + encode(tuple(parts), depth)
    if kind.__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return encode(value.item(), depth)
    if kind is Items:
        return b"I" + encode((value.kind, value.cut, value.items), depth)
    if hasattr(kind, "__next__") or name in ITERABLE:
        items: list[Any] = []
        for item in value:
            if len(items) == MOST_ITEMS and hasattr(kind, "__next__"):
                return b"I" + encode((name, True, items), depth)
            items.append(item)
        return b"I" + encode((name, False, items), depth)
    raise ForeignError("an object of type " + name)


def decode(data: bytes) -> "Any":
    """The value of these bytes; raises ValueError for bytes that `encode` does not write."""
    try:
        value, end = _value(data, 0, 0)
    except (IndexError, OverflowError, UnicodeDecodeError, TypeError) as error:
        raise ValueError(f"not an encoded value: {error}") from None
    if end != len(data):
        raise ValueError("not an encoded value: bytes behind its end")
    return value


def _value(data: bytes, at: int, depth: int) -> "tuple[Any, int]":
    letter = data[at : at + 1]
    at += 1
    if letter in b"NTF" and letter:
        return {b"N": None, b"T": True, b"F": False}[letter], at
    if letter in b"ifc" and letter:
        end = data.index(b";", at)
        text = data[at:end].decode("ascii")
        if letter == b"i":
            return int(text, 16), end + 1
        numbers = [float.fromhex(part) for part in text.split(",")]
        if len(numbers) != (1 if letter == b"f" else 2):
            raise ValueError("not an encoded value: a number with too many parts")
        return (numbers[0] if letter == b"f" else complex(*numbers)), end + 1
    if letter in b"RqI" and letter:
        parts, end = _value(data, at, depth)
        return _other(letter, parts), end
    colon = data.index(b":", at, at + 20)
    size = int(data[at:colon])
    if not 0 <= size <= len(data):
        raise ValueError("not an encoded value: a length out of range")
    at = colon + 1
    if letter in b"sb" and letter:
        if at + size > len(data):
            raise ValueError("not an encoded value: cut off")
        part = bytes(data[at : at + size])
        return (part if letter == b"b" else part.decode("utf-8", "surrogatepass")), at + size
    if letter not in b"ltSZd" or not letter or depth >= DEPTH:
        raise ValueError("not an encoded value: unknown or too deep")
    items = []
    for _ in range(size * (2 if letter == b"d" else 1)):
        item, at = _value(data, at, depth + 1)
        items.append(item)
    if letter == b"l":
        return items, at
    if letter == b"t":
        return tuple(items), at
    _refuse_collisions(items[::2] if letter == b"d" else items)
    if letter == b"d":
        return dict(zip(items[::2], items[1::2], strict=True)), at
    return (set(items) if letter == b"S" else frozenset(items)), at


def _other(letter: bytes, parts: "Any") -> "Any":
    kinds = [type(part) for part in parts] if type(parts) is tuple else []
    if letter == b"I" and kinds == [str, bool, list]:
        return Items(parts[0][:100], parts[2], parts[1])
    if letter == b"R" and kinds == [int, int, int] and parts[2] and max(map(abs, parts)) < 1 << 62:
        return range(*parts)
    if (
        letter == b"q"
        and kinds == [int, int]
        and max(part.bit_length() for part in parts) <= FRACTION_BITS
        and parts[1]
    ):
        from fractions import Fraction

        return Fraction(*parts)
    raise ValueError("not an encoded value: parts that do not fit")


def _refuse_collisions(keys: "list[Any]") -> None:
    """Many different keys of one hash make a table as slow as the square of their number."""
    if len(keys) <= COLLISIONS:
        return
    hashes = sorted(hash(key) for key in keys)
    if sum(hashes[at] == hashes[at - 1] for at in range(1, len(hashes))) > COLLISIONS:
        raise ValueError("too many keys of one hash")
