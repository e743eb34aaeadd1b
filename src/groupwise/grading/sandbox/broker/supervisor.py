"""The supervisor of one run: starts its program, and ends only when nothing of the run is left."""

import json
import os
import resource
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from groupwise.grading.sandbox.broker import cgroup, expose, ipc, system

SWEEP_SECONDS = 10.0


@dataclass(frozen=True)
class Request:
    """What to start. uid: user and group of the program on the host, None for our own. fds: descriptors for 0, 1, 2."""

    run: str
    argv: list[str]
    env: dict[str, str]
    uid: int | None
    memory_bytes: int
    processes: int
    folder: str
    expose: list[str]
    cover: dict[str, int]
    fds: list[int]


def supervise(request: Request, control: socket.socket, parents: cgroup.Parents) -> NoReturn:
    """Run the request until its program ends or the control socket says or is closed; report on the socket."""
    system.adopt_orphans()
    groups = parents.enter(request.run, request.memory_bytes, request.processes) if parents.folders else []
    supervisor = os.getpid()
    child = os.fork()
    if child == 0:
        start(request, supervisor, groups)
    for fd in request.fds:
        os.close(fd)
    pidfd = os.pidfd_open(child)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    if all(fd != pidfd for fd, _ in poll.poll()):
        kill(child)
    _, status = os.waitpid(child, 0)
    left = sweep(request.uid)
    if request.uid is not None:
        ipc.remove_all_of(request.uid)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    for group in groups:
        cgroup.remove(group)
    report = {
        "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "left": left,
    }
    with suppress(OSError):
        control.send(json.dumps(report).encode())
    os._exit(0)


def start(request: Request, supervisor: int, groups: list[str]) -> NoReturn:
    """In the child: drop everything and become the program."""
    try:
        cgroup.join(groups)
        own_folders(request)
        os.setsid()
        for target, fd in enumerate(request.fds):
            os.dup2(fd, target, inheritable=True)
        os.closerange(len(request.fds), 4096)
        os.chdir("/")
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if request.uid is not None:
            os.setgroups([])
            os.setresgid(request.uid, request.uid, request.uid)
            os.setresuid(request.uid, request.uid, request.uid)
        system.die_with(supervisor)
        system.no_new_privileges()
        os.execve(request.argv[0], request.argv, request.env)
    except BaseException as error:
        os.write(2, f"launch: {error}\n".encode())
    os._exit(126)


def own_folders(request: Request) -> None:
    """What the user of the program has to reach, empty file systems over the folders to be covered, and its folder."""
    owner = os.geteuid() if request.uid is None else request.uid
    if request.folder and request.uid is not None:
        os.chown(request.folder, owner, owner)
    if request.expose or request.cover:
        system.private_mounts()
    expose.expose(request.expose)
    for path, size in request.cover.items():
        options = f"size={size},nr_inodes=65536,mode=700,uid={owner},gid={owner}"
        system.mount("tmpfs", path, "tmpfs", system.MS_NOSUID | system.MS_NODEV, options)


def kill(child: int) -> None:
    """Kill the group of a child, and the child should it not lead one yet."""
    for end in (os.killpg, os.kill):
        try:
            end(child, signal.SIGKILL)
        except OSError:
            continue


def sweep(uid: int | None) -> int:
    """Kill and wait for every descendant; the number of those that were still there."""
    found = 0
    deadline = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid:
            continue
        for child in children():
            found += 1
            kill(child)
        if uid is not None:
            kill_all_of(uid)
        time.sleep(0.002)
    return found


def children() -> list[int]:
    """Our children, adopted ones too."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def kill_all_of(uid: int) -> None:
    """Kill all processes of a user at one stroke: one after the other, a fork bomb outruns the killer."""
    child = os.fork()
    if child == 0:
        os.setresuid(uid, uid, uid)
        os.kill(-1, signal.SIGKILL)
        os._exit(0)
    os.waitpid(child, 0)
