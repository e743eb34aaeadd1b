"""Functions that run in worker processes."""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class NamedError(Exception):
    failure_kind = "named"


def echo(init: Any) -> Callable[[Any], Any]:
    return lambda payload: [init, payload, os.getpid()]


def misbehave(_: Any) -> Callable[[Any], Any]:
    return act


def act(payload: Any) -> Any:
    what, argument = payload
    return ACTIONS[what](argument)


def fails_to_load(_: Any) -> Callable[[Any], Any]:
    raise RuntimeError("no such model")


def exits_while_loading(_: Any) -> Callable[[Any], Any]:
    os._exit(7)


def loads_slowly(seconds: float) -> Callable[[Any], Any]:
    time.sleep(seconds)
    return lambda payload: payload


def _raise(_: Any) -> Any:
    raise KeyError("price")


def _named(_: Any) -> Any:
    raise NamedError("as it wants")


def _busy(_: Any) -> Any:
    while True:
        pass


def _huge_power(_: Any) -> Any:
    return len(str(7**10_000_000))


def _sleep(seconds: float) -> Any:
    time.sleep(seconds)
    return os.getpid()


def _print(count: int) -> Any:
    for n in range(count):
        print("out", n)
    os.write(1, b"raw\n")
    subprocess.run(["echo", "from a program"], check=True)
    print("err", file=sys.stderr)
    return "printed"


def _print_and_raise(_: Any) -> Any:
    print("look here")
    raise ValueError("after printing")


def _eat(_: Any) -> Any:
    return len(bytearray(8 * 2**30))


def _segfault(_: Any) -> Any:
    return ctypes.string_at(0)


def _fork_and_return(_: Any) -> Any:
    os.fork()
    return "forked"


def _leave_sleepers(name: str) -> Any:
    """One in the session, one in a session of its own whose parent is gone, then hang."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", name])
    if os.fork() == 0:
        os.setsid()
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", name])
        os._exit(0)
    time.sleep(600)


def _leave_group_and_exit(name: str) -> Any:
    """A program in the session, but in a process group of its own."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", name], process_group=0)
    time.sleep(0.2)
    os._exit(1)


def _close_everything(_: Any) -> Any:
    os.closerange(0, 256)
    return 1


def _garble(_: Any) -> Any:
    for fd in range(3, 20):
        with suppress(OSError):
            os.write(fd, b"\x00\x00\x00\x02no")
    return 1


def _die_by_and_by(seconds: float) -> Any:
    import threading

    threading.Timer(seconds, lambda: os._exit(3)).start()
    return os.getpid()


def _read_stdin(_: Any) -> Any:
    return sys.stdin.read()


ACTIONS: dict[str, Callable[[Any], Any]] = {
    "raise": _raise,
    "named": _named,
    "busy": _busy,
    "huge_power": _huge_power,
    "sleep": _sleep,
    "print": _print,
    "print_and_raise": _print_and_raise,
    "eat": _eat,
    "segfault": _segfault,
    "fork": _fork_and_return,
    "leave_sleepers": _leave_sleepers,
    "leave_group": _leave_group_and_exit,
    "close_everything": _close_everything,
    "garble": _garble,
    "die_later": _die_by_and_by,
    "read_stdin": _read_stdin,
    "exit": sys.exit,
    "_exit": os._exit,
    "nan": lambda _: float("nan"),
    "object": lambda _: object(),
    "session": lambda _: [os.getsid(0), os.getpid()],
    "recurse": lambda n: act(("recurse", n)),
    "length": len,
    "big": lambda n: "x" * n,
}
