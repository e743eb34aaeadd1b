"""What runs in a worker process: reads calls from standard input and writes what they return to standard output.

It is run as a file, and imports nothing but the standard library and what the target needs, so that it starts fast.
Both streams carry frames of JSON, each behind its length in four bytes. They are moved away before the target is
loaded, so that whatever the target prints goes to standard error and cannot disturb them.
"""

import importlib
import io
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    requests, responses = _take_channels()
    _tie_to_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pid = os.getpid()
    first = _read(requests)
    if first is None:
        return
    answer, handler = _start(first)
    _write(responses, first["id"], answer)
    if handler is None:
        return
    while (request := _read(requests)) is not None:
        answer = _call(handler, request["payload"])
        if os.getpid() != pid:
            os._exit(0)  # A fork that came back from the call: its parent answers.
        _write(responses, request["id"], answer)
    with suppress(OSError):
        os.killpg(0, signal.SIGKILL)  # What the target left running goes too.


def _start(first: dict[str, Any]) -> tuple[dict[str, Any], Callable[[Any], Any] | None]:
    sys.path[:0] = [path for path in first["paths"] if path not in sys.path]
    module, _, name = first["target"].partition(":")
    try:
        handler: Callable[[Any], Any] = getattr(importlib.import_module(module), name)(first["init"])
    except BaseException as error:
        return failure_of(error), None
    if first["memory_mb"]:
        limit = _address_space_bytes() + first["memory_mb"] * 2**20
        with suppress(ValueError, OSError):  # macOS has no such limit.
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return {"value": None}, handler


def _call(handler: Callable[[Any], Any], payload: Any) -> dict[str, Any]:
    try:
        value = handler(payload)
    except BaseException as error:
        answer = failure_of(error)
    else:
        try:
            json.dumps(value, allow_nan=False)
            answer = {"value": value}
        except (TypeError, ValueError, RecursionError) as error:
            answer = {"kind": "bad_value", "message": f"returned what JSON cannot hold: {error}"}
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    return answer


def failure_of(error: BaseException) -> dict[str, Any]:
    """What a call says that raised: kind, message and data."""
    kind = getattr(error, "failure_kind", "")
    if kind:
        return {"kind": kind, "message": str(error), "data": getattr(error, "failure_data", None)}
    try:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    except Exception:
        text = type(error).__name__
    where = _where(error)
    return {
        "kind": "memory" if isinstance(error, MemoryError) else "raised",
        "message": f"{text[:2000]} ({where})" if where else text[:2000],
    }


def _where(error: BaseException) -> str:
    """File and line of the innermost frame of code that is neither ours, nor Python's, nor an installed package's."""
    library = os.path.dirname(os.__file__)
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    place = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        foreign = file.startswith((library, "<")) or "site-packages" in file or os.path.abspath(file).startswith(ours)
        if not foreign:
            place = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    if not place and isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}"
    return place


def _take_channels() -> tuple[int, int]:
    requests, responses = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    return requests, responses


def _tie_to_parent() -> None:
    """End with the parent even if it is killed; become the parent of orphans, so that they can be found and ended."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _address_space_bytes() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _read(channel: int) -> dict[str, Any] | None:
    header = _read_exactly(channel, 4)
    if header is None:
        return None
    body = _read_exactly(channel, struct.unpack(">I", header)[0])
    return None if body is None else json.loads(body)


def _read_exactly(channel: int, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        chunk = os.read(channel, min(count - len(data), 1 << 20))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def _write(channel: int, request_id: int, answer: dict[str, Any]) -> None:
    body = json.dumps({"id": request_id, **answer}).encode()
    data = memoryview(struct.pack(">I", len(body)) + body)
    while data:
        data = data[os.write(channel, data) :]


if __name__ == "__main__":
    main()
