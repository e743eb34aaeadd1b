"""Tests as data sets pack them: JSON with integers of any length, and a text that was pickled and compressed."""

import base64
import binascii
import json
import pickletools
import zlib
from typing import Any

LARGEST_BYTES = 256 << 20
# Python's own limit on the digits of one integer is above this.
_DIGITS = 4000
_TEXTS = ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8")
# What a pickle that holds a text and nothing else is made of.
_AROUND = ("PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "STOP")


def read_json(text: str | bytes) -> Any:
    """JSON, with integers of any length. Raises ValueError or RecursionError."""
    return json.loads(text, parse_int=integer_of)


def integer_of(digits: str) -> int:
    """The integer of a decimal text, which may be longer than `int` takes. Raises ValueError."""
    if len(digits) <= _DIGITS:
        return int(digits)
    if digits[0] in "+-":
        return -integer_of(digits[1:]) if digits[0] == "-" else integer_of(digits[1:])
    half = len(digits) // 2
    power: int = 10 ** (len(digits) - half)
    return integer_of(digits[:half]) * power + integer_of(digits[half:])


def unpacked(value: Any) -> Any:
    """The text behind base64, zlib and pickle, as LiveCodeBench keeps its private tests; anything else as it is.

    The pickle is never loaded: its instructions are listed, and all but those of a single text are refused.
    """
    if not isinstance(value, str) or value.lstrip()[:1] in ("[", "{", ""):
        return value
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(base64.b64decode(value, validate=True), LARGEST_BYTES)
        if stream.unconsumed_tail:
            return value
        steps = [(step.name, argument) for step, argument, _ in pickletools.genops(data)]
    except (binascii.Error, zlib.error, ValueError, UnicodeError):
        return value
    texts = [argument for name, argument in steps if name in _TEXTS]
    return texts[0] if len(texts) == 1 and all(name in (*_TEXTS, *_AROUND) for name, _ in steps) else value
