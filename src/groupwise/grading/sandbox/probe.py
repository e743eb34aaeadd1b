"""A short trial of a sandbox before it is used."""

import os
import socket
import tempfile
from pathlib import Path

from groupwise.grading.sandbox.runs import Limits
from groupwise.grading.sandbox.sandbox import Sandbox

# Prints one word for each wall that does not stand. Arguments by standard input: a file, a port, a process, a limit.
PROGRAM = """
import os, socket
path, port, pid, processes = input().split()
def tries(name, action):
    try:
        action()
    except BaseException:
        return
    print(name)
def fork_beyond():
    for _ in range(int(processes) + 8):
        if os.fork() == 0:
            os.read(0, 1)
            os._exit(0)
print("runs")
tries("reads-files-of-this-machine", lambda: open(path).read())
tries("connects-to-this-machine", lambda: socket.create_connection(("127.0.0.1", int(port)), 1))
tries("signals-processes-of-this-machine", lambda: os.kill(int(pid), 0))
tries("starts-more-processes-than-allowed", fork_beyond)
"""


def probe(sandbox: Sandbox) -> str:
    """Why the sandbox is not to be used; empty where a program runs and the walls hold. `none` only has to run."""
    limits = Limits(wall_seconds=10.0, cpu_seconds=5.0, memory_mb=max(256, sandbox.limits.memory_mb), processes=6)
    with (
        tempfile.NamedTemporaryFile("w", prefix="groupwise-probe-") as file,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        file.write("readable")
        file.flush()
        os.chmod(file.name, 0o644)
        port = server.getsockname()[1]
        request = f"{Path(file.name)} {port} {os.getpid()} {limits.processes}\n"
        outcome = sandbox.run_program(PROGRAM, request, limits)
    words = outcome.stdout.decode("utf-8", "replace").split()
    if "runs" not in words:
        said = outcome.detail or outcome.stderr[-300:].decode("utf-8", "replace").strip()
        return f"a trial program does not run: {said}"
    leaks = [word.replace("-", " ") for word in words if word != "runs"]
    return "" if sandbox.unsafe or not leaks else "a trial program " + ", ".join(leaks)
