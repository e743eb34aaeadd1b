"""System calls that Python has no function for."""

import ctypes
import os
import signal

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
IPC_RMID = 0
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Raise OSError, with errno, for a negative result."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2)."""
    texts = [None if text is None else text.encode() for text in (source, target, kind)]
    check(libc.mount(*texts, ctypes.c_ulong(flags), data.encode() if data else None), f"mount {target}")


def private_mounts() -> None:
    """A mount namespace of our own: what is mounted from here on is seen by this process and its children alone."""
    check(libc.unshare(CLONE_NEWNS), "unshare mounts")
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    check(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl subreaper")


def die_with(parent: int) -> None:
    """Be killed when the parent ends. A change of user id takes this back, so it comes after one."""
    check(libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0), "prctl pdeathsig")
    if os.getppid() != parent:
        os._exit(1)


def no_new_privileges() -> None:
    """Programs with set-user-id bits give nothing from here on."""
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl no_new_privs")


def remove_ipc(kind: str, number: int) -> None:
    """Remove a System V object of kind `shm`, `sem` or `msg`; nothing happens where it is not ours or gone."""
    if kind == "shm":
        libc.shmctl(number, IPC_RMID, None)
    elif kind == "sem":
        libc.semctl(number, 0, IPC_RMID)
    else:
        libc.msgctl(number, IPC_RMID, None)
