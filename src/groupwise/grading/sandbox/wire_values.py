"""Python values as bytes that keep the exact type of everything.

The parent and the sandboxed harness both use this file; in the harness it is read as text, so it imports nothing. What
is decoded was written by a program that nobody has read: decoding runs nothing, is bounded by the length of the bytes,
and raises ValueError for anything that `encode` does not write.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEPTH = 200
COLLISIONS = 1000
LETTERS: "dict[type, bytes]" = {list: b"l", tuple: b"t", set: b"S", frozenset: b"Z"}
# Dictionaries of the standard library that count as what they hold.
DICTS = ("Counter", "defaultdict", "OrderedDict")


class ForeignError(ValueError):
    """A value that is not made of exact builtins; the text says what it is."""


def encode(value: "Any", depth: int = 0) -> bytes:
    """The bytes of None, bool, int, float, complex, str, bytes, and list, tuple, set, frozenset, dict of such.

    A Counter, defaultdict or OrderedDict is written as a dict. Raises ForeignError for everything else: instances of
    subclasses, other objects, nesting deeper than 200.
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
    if kind.__module__ == "collections" and kind.__qualname__ in DICTS and issubclass(kind, dict):
        return encode(dict(dict.items(value)), depth)
    raise ForeignError("an object of type " + kind.__module__ + "." + kind.__qualname__)


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


def _refuse_collisions(keys: "list[Any]") -> None:
    """Many different keys of one hash make a table as slow as the square of their number."""
    if len(keys) <= COLLISIONS:
        return
    hashes = sorted(hash(key) for key in keys)
    if sum(hashes[at] == hashes[at - 1] for at in range(1, len(hashes))) > COLLISIONS:
        raise ValueError("too many keys of one hash")
