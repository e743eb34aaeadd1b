"""A filter of system calls: a second wall behind the namespaces, for what they do not cover.

Memory files (memfd) count neither as disk nor as address space; keys are shared by all processes of a user; sockets of
virtual machines (vsock) reach the host from inside any network namespace; the rest has been the way into the kernel too
often. Refused calls fail with EPERM, clone3 with ENOSYS, so that threads are started by clone, whose flags can be read.
"""

import platform
import struct

EPERM, ENOSYS = 1, 38
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
CLONE_NEW_NAMESPACES = 0x7E020000
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
TIOCSTI, TIOCLINUX = 0x5412, 0x541C

AUDIT_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Number on x86_64, number on aarch64; None where there is no such call.
CALLS: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "move_mount": (429, 429), "fsopen": (430, 430),
    "open_tree": (428, 428), "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "kexec_load": (246, 104),
    "init_module": (175, 105), "finit_module": (313, 273), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264), "syslog": (103, 116), "acct": (163, 89), "quotactl": (179, 60),
    "swapon": (167, 224), "reboot": (169, 142), "personality": (135, 92), "modify_ldt": (154, None),
    "iopl": (172, None), "ioperm": (173, None), "uselib": (134, None), "vhangup": (153, 58), "kcmp": (312, 272),
    "lookup_dcookie": (212, 18),
}  # fmt: skip
CLONE, CLONE3, SOCKET, SOCKETPAIR, IOCTL = (56, 220), (435, 435), (41, 198), (53, 199), (16, 29)


def filter_program(machine: str | None = None) -> bytes:
    """The filter as classic BPF for this machine's processor; empty where there is none for it."""
    machine = machine or platform.machine()
    if machine not in AUDIT_ARCHITECTURE:
        return b""
    column = 0 if machine == "x86_64" else 1
    code = [load(4), (EQUAL, 1, 0, AUDIT_ARCHITECTURE[machine]), give(KILL), load(0)]
    if machine == "x86_64":
        # The x32 calls have their own numbers.
        code += [(AT_LEAST, 0, 1, 0x40000000), give(ERRNO | ENOSYS)]
    for numbers in CALLS.values():
        number = numbers[column]
        if number is not None:
            code += [(EQUAL, 0, 1, number), give(ERRNO | EPERM)]
    code += [(EQUAL, 0, 1, CLONE3[column]), give(ERRNO | ENOSYS)]
    code += [
        (EQUAL, 0, 3, CLONE[column]),
        load(16),
        (ANY_BIT, 0, 1, CLONE_NEW_NAMESPACES),
        give(ERRNO | EPERM),
        load(0),
    ]
    families = [(EQUAL, after, 0, family) for after, family in ((3, AF_UNIX), (2, AF_INET), (1, AF_INET6))]
    for call in (SOCKET, SOCKETPAIR):
        code += [(EQUAL, 0, 5, call[column]), load(16), *families, give(ERRNO | EPERM), load(0)]
    code += [(EQUAL, 0, 4, IOCTL[column]), load(24), (EQUAL, 1, 0, TIOCSTI), (EQUAL, 0, 1, TIOCLINUX)]
    code += [give(ERRNO | EPERM), give(ALLOW)]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def load(offset: int) -> tuple[int, int, int, int]:
    """Load a word of the call's description: 0 its number, 4 the architecture, 16 + 8 n the low half of argument n."""
    return (LOAD, 0, 0, offset)


def give(action: int) -> tuple[int, int, int, int]:
    """End with this action."""
    return (RETURN, 0, 0, action)
