"""Reading what the harness wrote about each call; a hostile program may have written it."""

from groupwise.grading.sandbox import wire_values
from groupwise.grading.sandbox.runs import CallResult, Outcome

HEADER_BYTES = 16


def results_of(outcome: Outcome, calls: int) -> tuple[tuple[CallResult, ...], str]:
    """One result for each call, and the error of loading the program; the first malformed frame ends the reading."""
    data = outcome.stdout
    results: list[CallResult] = []
    load_error = ""
    at = 0
    while at < len(data) and len(results) < calls:
        colon = data.find(b":", at, at + HEADER_BYTES)
        size = data[at + 1 : colon]
        if colon < 0 or not size.isdigit() or colon + 1 + int(size) > len(data):
            break
        payload = data[colon + 1 : colon + 1 + int(size)]
        letter = data[at : at + 1]
        at = colon + 1 + int(size)
        if letter == b"L":
            load_error = payload.decode("utf-8", "replace")
            break
        result = result_of(letter, payload)
        if result is None:
            break
        results.append(result)
    why = load_error or outcome.detail or "the process ended before"
    missing = CallResult(status="missing", detail=why)
    return tuple(results) + (missing,) * (calls - len(results)), load_error


def result_of(letter: bytes, payload: bytes) -> CallResult | None:
    """The result in one frame; None for one that the harness does not write."""
    if letter == b"r":
        try:
            return CallResult(status="returned", value=wire_values.decode(payload))
        except (ValueError, RecursionError, MemoryError):
            return None
    if letter not in (b"g", b"x"):
        return None
    return CallResult("foreign" if letter == b"g" else "raised", detail=payload.decode("utf-8", "replace"))
