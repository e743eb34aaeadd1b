"""Ending a process with everything that it started."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_ROUNDS = 20


class _Process(NamedTuple):
    pid: int
    parent: int
    session: int


def kill_tree(leader: int) -> None:
    """Kill the leader of a session, its process group, its session and its descendants, also in their own sessions.

    The leader is stopped first and killed last: while it lives, orphans among its descendants are its children.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.kill(leader, signal.SIGSTOP)
    if sys.platform.startswith("linux"):
        for _ in range(_ROUNDS):
            others = _belonging_to(leader)
            for pid in others:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not others:
                break
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _belonging_to(leader: int) -> set[int]:
    """Living processes of the leader's session and all its descendants, without itself."""
    processes = _processes()
    children: dict[int, list[int]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process.pid)
    found = {process.pid for process in processes if process.session == leader}
    pending = [leader, *found]
    while pending:
        for child in children.get(pending.pop(), []):
            if child not in found:
                found.add(child)
                pending.append(child)
    return found - {leader}


def _processes() -> list[_Process]:
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_text()
        except OSError:
            continue
        # The name in parentheses may hold anything, also parentheses.
        state, parent, _, session = stat[stat.rindex(")") + 2 :].split()[:4]
        if state not in "ZX":
            found.append(_Process(int(entry), int(parent), int(session)))
    return found
