"""How much memory a process may still take."""

from pathlib import Path

import torch

from groupwise.model.device import free_device_bytes
from groupwise.ranks import Ranks

UNLIMITED = 2**60
"""Control groups of version 1 state a limit near 2^63 where there is none."""


def free_bytes(device: torch.device, ranks: Ranks) -> int | None:
    """Bytes that this process may still take on the device; None where the system does not tell.

    Processes that run on one machine divide its main memory.
    """
    if device.type != "cpu":
        return free_device_bytes(device)
    sharers = ranks.on_this_machine()
    free_here = free_main_bytes(Path("/proc"), Path("/sys/fs/cgroup"))
    return None if free_here is None else free_here // sharers


def free_main_bytes(proc: Path, groups: Path) -> int | None:
    """The main memory that Linux calls available, or what `ulimit` and control groups leave of it."""
    lines = _pairs(proc / "meminfo", ":")
    if "MemAvailable" not in lines:
        return None
    return min([1024 * lines["MemAvailable"], *_left_by_groups(proc, groups), *_left_by_limits(proc)])


def _left_by_groups(proc: Path, groups: Path) -> list[int]:
    """What every limited control group leaves that this process is in, version 1 and 2, the parents too."""
    try:
        memberships = [line.split(":", 2) for line in (proc / "self" / "cgroup").read_text().splitlines()]
    except OSError:
        return []
    left = []
    for _, controllers, path in memberships:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        root = groups / "memory"
        if not controllers:
            names, root = ("memory.max", "memory.current", "inactive_file"), groups
        elif "memory" not in controllers.split(","):
            continue
        # In a container the path may be that of the host, while only its end, or nothing of it, is mounted.
        inside = root / path.lstrip("/")
        for folder in {inside, *(parent for parent in inside.parents if parent.is_relative_to(root)), root}:
            limit, used = _number(folder / names[0]), _number(folder / names[1])
            if limit is not None and used is not None and limit < UNLIMITED:
                # Cached files are given up when a process needs the room.
                left.append(max(0, limit - used + _pairs(folder / "memory.stat", " ").get(names[2], 0)))
    return left


def _left_by_limits(proc: Path) -> list[int]:
    """What the limits on the address space and on private memory leave, as `ulimit -v` and `ulimit -d` set them."""
    try:
        limits = (proc / "self" / "limits").read_text().splitlines()
    except OSError:
        return []
    used, left = _pairs(proc / "self" / "status", ":"), []
    for name, size in (("Max address space", "VmSize"), ("Max data size", "VmData")):
        stated = [line.removeprefix(name).split()[0] for line in limits if line.startswith(name)]
        if stated and stated[0].isdecimal() and size in used:
            left.append(max(0, int(stated[0]) - 1024 * used[size]))
    return left


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _pairs(file: Path, separator: str) -> dict[str, int]:
    """The lines `name, separator, number` of a file, without their units."""
    try:
        split = [line.partition(separator) for line in file.read_text().splitlines()]
        numbers = ((name, value.split()[0]) for name, _, value in split if value.split())
        return {name: int(number) for name, number in numbers if number.isdecimal()}
    except (OSError, ValueError):
        return {}
