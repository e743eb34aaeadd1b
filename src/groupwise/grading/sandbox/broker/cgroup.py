"""Limits of all processes of a run together, where this machine lets us make control groups."""

import os
import time

ROOT = "/sys/fs/cgroup"


class Parents:
    """The folders under which a group for each run is made; empty where none can be."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folders: list[str] = []
        self.unified = False

    def find(self) -> None:
        """Look for version 1 hierarchies, then for version 2."""
        own = {}
        with open("/proc/self/cgroup") as file:
            for line in file:
                _, controllers, path = line.rstrip("\n").split(":", 2)
                for controller in controllers.split(","):
                    own[controller] = path
        for controller in ("memory", "pids"):
            if controller in own:
                self.make(f"{ROOT}/{controller}{own[controller].rstrip('/')}/{self.name}")
        if not self.folders and "" in own:
            base = f"{ROOT}{own[''].rstrip('/')}"
            self.unified = self.make(f"{base}/{self.name}", delegate="+memory +pids")

    def make(self, folder: str, delegate: str = "") -> bool:
        """Make a parent folder, and try whether a limit can be set under it."""
        try:
            os.mkdir(folder)
        except OSError:
            return False
        try:
            if delegate:
                write(f"{folder}/cgroup.subtree_control", delegate)
            trial = f"{folder}/trial"
            os.mkdir(trial)
            os.rmdir(trial)
        except OSError:
            remove(folder)
            return False
        self.folders.append(folder)
        return True

    def enter(self, run: str, memory_bytes: int, processes: int) -> list[str]:
        """Make the groups of one run and set their limits; returns their folders."""
        made = []
        for parent in self.folders:
            folder = f"{parent}/{run}"
            try:
                os.mkdir(folder)
                made.append(folder)
                if self.unified:
                    write(f"{folder}/memory.max", str(memory_bytes))
                    write(f"{folder}/pids.max", str(processes))
                elif f"{ROOT}/memory" in parent:
                    write(f"{folder}/memory.limit_in_bytes", str(memory_bytes))
                else:
                    write(f"{folder}/pids.max", str(processes))
                if self.unified and os.path.exists(f"{folder}/memory.swap.max"):
                    write(f"{folder}/memory.swap.max", "0")
            except OSError:
                continue
        return made

    def close(self) -> None:
        """Remove the parent folders and what was left under them."""
        for folder in self.folders:
            for name in os.listdir(folder):
                if os.path.isdir(f"{folder}/{name}"):
                    remove(f"{folder}/{name}")
            remove(folder)


def join(folders: list[str]) -> None:
    """Put the calling process into the groups."""
    for folder in folders:
        write(f"{folder}/cgroup.procs", str(os.getpid()))


def remove(folder: str) -> None:
    """Remove a group; the kernel needs a moment after the last process of it has ended."""
    for _ in range(50):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)
        else:
            return


def write(path: str, text: str) -> None:
    """Write to a control file."""
    with open(path, "w") as file:
        file.write(text)
