"""The loop of the broker: take a request, fork a supervisor for it."""

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

from groupwise.grading.sandbox.broker import cgroup, supervisor, system

MESSAGE_BYTES = 1 << 17
DESCRIPTORS = 8


def main(fd: int) -> None:
    """Serve requests on the socket until it is closed."""
    requests = socket.socket(fileno=fd)
    # An interrupt at the terminal is for the trainer, which then closes the socket.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    parents = cgroup.Parents(f"groupwise-{os.getpid()}")
    requests.send(json.dumps(prepare(parents)).encode())
    signal.signal(signal.SIGCHLD, lambda *_: reap(os.WNOHANG))
    serial = 0
    try:
        while True:
            message, fds, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, DESCRIPTORS)
            if not message:
                break
            serial += 1
            fork_supervisor(json.loads(message), fds, str(serial), parents, requests)
            for received in fds:
                os.close(received)
    finally:
        # Their own sockets are closed with ours, so they end by themselves.
        reap(0)
        parents.close()


def prepare(parents: cgroup.Parents) -> dict[str, Any]:
    """Find out what this machine allows; all of it is optional."""
    with suppress(OSError):
        parents.find()
    return {"cgroups": parents.folders, "mounts": may_mount()}


def may_mount() -> bool:
    """Whether a process of ours can have its own mounts; tried in one that ends at once."""
    child = os.fork()
    if child == 0:
        try:
            system.private_mounts()
            system.mount("tmpfs", "/tmp", "tmpfs", system.MS_NOSUID | system.MS_NODEV, "size=4096")
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def fork_supervisor(
    message: dict[str, Any], fds: list[int], run: str, parents: cgroup.Parents, requests: socket.socket
) -> None:
    """Fork a supervisor; in it, this never returns."""
    if os.fork():
        return
    try:
        requests.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        request = supervisor.Request(run=run, fds=fds[1:], **message)
        supervisor.supervise(request, socket.socket(fileno=fds[0]), parents)
    except BaseException as error:
        sys.stderr.write(f"sandbox supervisor: {error!r}\n")
    os._exit(1)


def reap(flags: int) -> None:
    """Collect the supervisors that have ended; with flags 0, all of them."""
    try:
        while os.waitpid(-1, flags)[0]:
            continue
    except ChildProcessError:
        return
