"""Values that can be written as Python literals."""

import math
from typing import Any

_DEPTH = 100


def literal_error(value: Any, depth: int = 0) -> str:
    """Why a value is no literal; empty where it is one."""
    if depth > _DEPTH:
        return "nested too deeply"
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return ""
    if type(value) in (list, tuple, set, frozenset):
        return next((error for item in value if (error := literal_error(item, depth + 1))), "")
    if type(value) is dict:
        both = (part for pair in value.items() for part in pair)
        return next((error for item in both if (error := literal_error(item, depth + 1))), "")
    return f"a value of the type {type(value).__name__}"


def literal_source(value: Any) -> str:
    """Text in the test language that stands for a literal value."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if type(value) in (list, tuple, set, frozenset):
        inside = ", ".join(literal_source(item) for item in value)
        if isinstance(value, list):
            return f"[{inside}]"
        if isinstance(value, tuple):
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        braces = f"{{{inside}}}" if value else ""
        return f"frozenset({braces})" if isinstance(value, frozenset) else braces or "set()"
    if type(value) is dict:
        return "{" + ", ".join(f"{literal_source(key)}: {literal_source(item)}" for key, item in value.items()) + "}"
    return repr(value)
