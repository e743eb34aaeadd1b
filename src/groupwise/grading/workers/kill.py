"""Ending a process with everything that it started."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_ROUNDS = 20


class Process(NamedTuple):
    """A living process: its number, its parent's, its session's and its user's."""

    pid: int
    parent: int
    session: int
    user: int


def kill_tree(leader: int) -> None:
    """Kill the leader of a session, its process group, its session and its descendants, also in their own sessions.

    The leader is stopped first and killed last: while it lives, orphans among its descendants are its children.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.kill(leader, signal.SIGSTOP)
    if sys.platform.startswith("linux"):
        for _ in range(_ROUNDS):
            others = belonging_to(leader)
            for pid in others:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not others:
                break
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def belonging_to(leader: int) -> set[int]:
    """Living processes of the leader's session and all its descendants, without itself."""
    processes = living_processes()
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


def living_processes() -> list[Process]:
    """Those of this machine that have not ended."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            user = os.stat(f"/proc/{entry}").st_uid
            stat = Path("/proc", entry, "stat").read_text()
        except OSError:
            continue
        # The name in parentheses may hold anything, also parentheses.
        state, parent, _, session = stat[stat.rindex(")") + 2 :].split()[:4]
        if state not in "ZX":
            found.append(Process(int(entry), int(parent), int(session), user))
    return found
