"""Files that somebody else wrote: sound ones with something changed, left out or put in."""

import json
from typing import Any

from hypothesis import strategies as st

# What readers trip over: other types, numbers out of range, names that lead elsewhere.
ODD: list[Any] = [
    *(None, True, -1, 0, 10**30, 1e308, float("nan"), float("inf"), "", "x", "\ud800", "\x00", "1"),
    *("../../../etc/passwd", "/etc/passwd", "step_000001/../..", [], {}, [[]], [None], {"a": 1}, "9" * 5000),
]


@st.composite
def changed(draw: st.DrawFn, sound: Any) -> Any:
    """The tree with one to three values replaced, removed or added, somewhere."""
    tree = json.loads(json.dumps(sound))
    for _ in range(draw(st.integers(1, 3))):
        node = tree
        while isinstance(node, dict | list) and node:
            key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
            inner = node[key]
            if isinstance(inner, dict | list) and inner and draw(st.booleans()):
                node = inner
                continue
            match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
                case "replace":
                    node[key] = draw(st.sampled_from(ODD))
                case "remove":
                    del node[key]
                case _ if isinstance(node, dict):
                    node[draw(st.sampled_from(["", "x", "../x", "/x", "__class__"]))] = draw(st.sampled_from(ODD))
                case _:
                    node.append(draw(st.sampled_from(ODD)))
            break
    return tree


@st.composite
def damaged(draw: st.DrawFn, sound: bytes) -> bytes:
    """The bytes cut off, with some replaced, put in, or repeated."""
    at = draw(st.integers(0, len(sound)))
    put = draw(st.binary(max_size=8) | st.sampled_from([b"\xff", b"\0", b"[" * 2000, b'{"a":' * 2000, b"\n", b"NaN"]))
    rest = draw(st.sampled_from([at, at + len(put), len(sound)]))
    return sound[:at] + put + sound[rest:]


def written(tree: Any) -> bytes:
    """As JSON, with what JSON itself would not take."""
    return json.dumps(tree).encode("utf-8", "surrogatepass")
