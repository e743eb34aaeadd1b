"""A vLLM server of this run's own: a process that ends with it."""

import ctypes
import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import torch

from groupwise.closing import Closing
from groupwise.errors import UsageError
from groupwise.model.load import Policy
from groupwise.rollout.engine_options import VllmServer
from groupwise.rollout.vllm.arguments import as_flags, dtype_of, engine_arguments, environment, write_configuration

PR_SET_PDEATHSIG = 1


class ServerProcess(Closing):
    """Started in `folder`, which takes the model and the server's log. It begins with these weights, since vLLM takes
    others from files only where it took the first ones from files.

    Raises:
        UsageError: where vLLM is not installed.
    """

    def __init__(self, policy: Policy, options: VllmServer, folder: Path, weights: Path) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise UsageError(
                "engine=vllm_server without engine.addresses starts a server here, and vLLM is not installed: install "
                "groupwise[vllm], give the address of a server that runs, or take engine=inprocess"
            )
        self.log = folder / "server.log"
        write_configuration(policy, folder / "model")
        os.link(weights, folder / "model" / weights.name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        is_cpu = not torch.accelerator.is_available()
        arguments = engine_arguments(options, dtype_of(options, policy), policy.max_context_tokens, is_cpu)
        self._command = [
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder / "model")),
            *("--served-model-name", "policy", "--host", "127.0.0.1", "--port", str(port), "--enable-scale-out"),
            *("--distributed-executor-backend", "uni", *as_flags(arguments)),
        ]
        # vLLM's own threads; a server shares a CPU with the trainer.
        threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")} if is_cpu else {}
        self._environment = {**os.environ, **environment(options.cache_gib), **threads, "VLLM_SERVER_DEV_MODE": "1"}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process lives; it may not answer yet."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, or start it again; it answers later."""
        self.close()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C at a terminal is the run's to handle, and all of the server's processes end together.
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )

    def last_words(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.is_file() else []
        return "\n".join(lines[-15:])

    def close(self) -> None:
        """End it and all that it started."""
        if self._process is not None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(self._process.pid, number)
                    self._process.wait(timeout=10)
                except ProcessLookupError:
                    break
                except subprocess.TimeoutExpired:
                    continue
            self._process = None


def _die_with_parent() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
