"""What an attack could reach on this machine if its sandbox leaked: a secret, a victim, sockets; and traces of it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from groupwise.closing import Closing

SECRET = "42"
PORT = 48123
ABSTRACT = "\0groupwise-48123"
CANARIES = ("pwned", "daemon_canary")
# Where an attack of ours leaves a file for the next one to find.
LEFT_BEHIND = ("/tmp/groupwise-left-behind", "/dev/shm/groupwise-left-behind")
SLEEPER = "import time\ntime.sleep(100000)"


class Scene(Closing):
    """A folder with a file `secret`, a file `victim` with the id of a live process, and a socket; listeners on loopback
    port 48123 (another one where that is taken) and on an abstract socket, which all say 42; FAKE_TOKEN=42 in our own
    environment."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="groupwise-scene-"))
        os.chmod(self.folder, 0o755)
        (self.folder / "secret").write_text(SECRET)
        self.victim: subprocess.Popen[bytes] | None = None
        self.token = os.environ.get("FAKE_TOKEN")
        os.environ["FAKE_TOKEN"] = SECRET
        self.connections = 0
        self.listeners = [listener(("127.0.0.1", PORT)), listener(ABSTRACT), listener(str(self.folder / "socket"))]
        self.port = self.listeners[0].getsockname()[1]
        os.chmod(self.folder / "socket", 0o666)
        for one in self.listeners:
            threading.Thread(target=self.answer, args=(one,), daemon=True).start()
        self.renew()

    def close(self) -> None:
        """Take all of it down."""
        for one in self.listeners:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        if self.victim is not None:
            self.victim.kill()
            self.victim.wait()
        if self.token is None:
            os.environ.pop("FAKE_TOKEN", None)
        else:
            os.environ["FAKE_TOKEN"] = self.token
        for path in LEFT_BEHIND:
            with suppress(OSError):
                os.unlink(path)
        shutil.rmtree(self.folder, ignore_errors=True)

    def answer(self, server: socket.socket) -> None:
        """Say 42 to everyone who connects."""
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            self.connections += 1
            with connection, suppress(OSError):
                connection.sendall(SECRET.encode())

    def place(self, program: str) -> str:
        """The program with the places of this scene put in."""
        placed = program.replace("{SCRATCH}", str(self.folder))
        return placed if self.port == PORT else placed.replace(str(PORT), str(self.port))

    def traces(self) -> list[str]:
        """What an attack has done to the scene; empty where nothing."""
        found = [f"left {name} on this machine" for name in CANARIES if os.path.lexists(self.folder / name)]
        if self.connections:
            found.append("connected to this machine")
        if self.victim is None or self.victim.poll() is not None:
            found.append("killed a process of this machine")
        if (self.folder / "secret").read_text() != SECRET:
            found.append("changed a file of this machine")
        return found

    def renew(self) -> None:
        """Remove the traces."""
        for name in CANARIES:
            with suppress(FileNotFoundError):
                os.unlink(self.folder / name)
        self.connections = 0
        (self.folder / "secret").write_text(SECRET)
        if self.victim is None or self.victim.poll() is not None:
            self.victim = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", SLEEPER],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            (self.folder / "victim").write_text(str(self.victim.pid))


def listener(address: tuple[str, int] | str) -> socket.socket:
    """A server on this address; on another port where this one is taken."""
    server = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    try:
        server.bind(address)
    except OSError:
        server.bind((address[0], 0) if isinstance(address, tuple) else f"{address}-{os.getpid()}")
    server.listen(64)
    return server
