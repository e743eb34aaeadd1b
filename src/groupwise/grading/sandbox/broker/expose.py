"""Making the interpreter reachable for a user that may not enter the folder above it, such as /root."""

import os
import stat

from groupwise.grading.sandbox.broker import system


def blocked(path: str) -> str | None:
    """The first folder on the way to the path that not everybody may enter."""
    parts = path.split("/")[1:]
    for count in range(1, len(parts)):
        folder = "/" + "/".join(parts[:count])
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return folder
    return None


def expose(paths: list[str]) -> None:
    """Cover each folder that blocks the way with an empty one that holds nothing but the way to the given paths.

    Needs a mount namespace of our own where there is such a folder.
    """
    blocking = {path: blocked(path) for path in paths}
    handles = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path, folder in blocking.items() if folder}
    covered = sorted({folder for folder in blocking.values() if folder})
    for folder in covered:
        system.mount("tmpfs", folder, "tmpfs", system.MS_NOSUID | system.MS_NODEV, "mode=755,size=1m")
    for path, handle in handles.items():
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "x"):
                pass
        system.mount(f"/proc/self/fd/{handle}", path, None, system.MS_BIND | system.MS_REC)
        os.close(handle)
