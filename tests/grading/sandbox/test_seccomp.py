"""The filter of system calls, run by an interpreter of its own language."""

import struct

import pytest

from groupwise.grading.sandbox.seccomp import AUDIT_ARCHITECTURE, filter_program

ALLOWED, REFUSED, MISSING, KILLED = "allowed", "EPERM", "ENOSYS", "killed"
ACTIONS = {0x7FFF0000: ALLOWED, 0x00050001: REFUSED, 0x00050026: MISSING, 0x80000000: KILLED}


def decide(machine: str, number: int, *arguments: int, architecture: int | None = None) -> str:
    """What the filter says to a call: classic BPF over struct seccomp_data."""
    data = struct.pack("<IIQ", number, architecture or AUDIT_ARCHITECTURE[machine], 0)
    data += struct.pack("<6Q", *arguments, *[0] * (6 - len(arguments)))
    program = list(struct.iter_unpack("<HBBI", filter_program(machine)))
    accumulator = at = 0
    while True:
        code, if_true, if_false, constant = program[at]
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, constant)[0]
        elif code == 0x06:
            return ACTIONS[constant]
        else:
            holds = {0x15: accumulator == constant, 0x35: accumulator >= constant, 0x45: bool(accumulator & constant)}
            at += if_true if holds[code] else if_false


# Numbers as in the kernel's tables: x86_64, aarch64.
@pytest.mark.parametrize(
    ("x86_64", "aarch64", "arguments", "wanted"),
    [
        (0, 63, (), ALLOWED),  # read
        (1, 64, (), ALLOWED),  # write
        (59, 221, (), ALLOWED),  # execve
        (9, 222, (), ALLOWED),  # mmap
        (56, 220, (17,), ALLOWED),  # clone as by fork
        (56, 220, (0x3D0F00,), ALLOWED),  # clone as by pthread_create
        (56, 220, (0x10000011,), REFUSED),  # clone with a user namespace
        (56, 220, (0x20000011,), REFUSED),  # clone with a process namespace
        (435, 435, (), MISSING),  # clone3
        (272, 97, (0x10000000,), REFUSED),  # unshare
        (308, 268, (), REFUSED),  # setns
        (165, 40, (), REFUSED),  # mount
        (166, 39, (), REFUSED),  # umount2
        (101, 117, (16, 1), REFUSED),  # ptrace
        (310, 270, (), REFUSED),  # process_vm_readv
        (319, 279, (), REFUSED),  # memfd_create
        (248, 217, (), REFUSED),  # add_key
        (321, 280, (), REFUSED),  # bpf
        (425, 425, (), REFUSED),  # io_uring_setup
        (41, 198, (1, 1), ALLOWED),  # socket: local
        (41, 198, (2, 1), ALLOWED),  # socket: internet
        (41, 198, (10, 1), ALLOWED),  # socket: internet, version 6
        (41, 198, (40, 1), REFUSED),  # socket: virtual machines
        (41, 198, (16, 3), REFUSED),  # socket: netlink
        (41, 198, (17, 3), REFUSED),  # socket: packets
        (53, 199, (1, 1), ALLOWED),  # socketpair
        (16, 29, (0, 0x5401), ALLOWED),  # ioctl TCGETS
        (16, 29, (0, 0x5412), REFUSED),  # ioctl TIOCSTI
        (16, 29, (0, 0x541C), REFUSED),  # ioctl TIOCLINUX
    ],
)
def test_calls(x86_64: int, aarch64: int, arguments: tuple[int, ...], wanted: str) -> None:
    assert decide("x86_64", x86_64, *arguments) == wanted
    assert decide("aarch64", aarch64, *arguments) == wanted


def test_calls_in_another_convention_do_not_slip_through() -> None:
    assert decide("x86_64", 101, architecture=0x40000003) == KILLED
    assert decide("x86_64", 0x40000000 + 101) == MISSING


def test_an_unknown_processor_has_no_filter() -> None:
    assert filter_program("riscv64") == b""
