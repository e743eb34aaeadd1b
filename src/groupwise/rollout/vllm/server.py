"""vLLM servers as the engine: requests divided by load, weights through a folder, failures waited out.

A completion follows from its seed alone. So what a server that is gone did not finish is asked again, of it or of
another one, with the same draws.
"""

import fcntl
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors.torch import load_file, save_file
from torch import Tensor

from groupwise.completion import Completion
from groupwise.errors import GroupwiseError
from groupwise.model.load import Policy
from groupwise.model.stop_strings import StopStrings
from groupwise.ranks import Ranks
from groupwise.rollout.engine import RolloutEngine, SampleRequest, SamplingParams
from groupwise.rollout.engine_options import VllmServer
from groupwise.rollout.vllm import requests as form
from groupwise.rollout.vllm.arguments import dtype_of
from groupwise.rollout.vllm.client import Client, ServerGoneError, ServerRefusedError, checked_address, key_from
from groupwise.rollout.vllm.process import ServerProcess
from groupwise.rollout.vllm.weights import HEAD, WeightProof, for_engine
from groupwise.stopping import LOOK_SECONDS, now

T = TypeVar("T")

WEIGHTS = "model.safetensors"

FAILURES = 3
"""How often a server that is well may fail to take weights over before that is given up."""


@dataclass(frozen=True)
class Wanted:
    """One completion: of which request, which of its samples, and how it is asked for."""

    index: int
    sample: int
    body: dict[str, Any]


class VllmServerEngine(RolloutEngine):
    """Each rank sends its own requests; rank 0 starts the server and hands the weights over."""

    def __init__(self, policy: Policy, options: VllmServer, say: Callable[[str], None]) -> None:
        self._policy, self._options, self._say = policy, options, say
        self._ranks = Ranks.current()
        self._dtype = dtype_of(options, policy)
        self._proof = WeightProof()
        self._process: ServerProcess | None = None
        self._folder: Path | None = None
        self._threads = ThreadPoolExecutor(options.batch_sequences, thread_name_prefix="vllm")
        self.version = -1
        try:
            key = key_from(options.api_key_variable)
            addresses = [checked_address(address, key) for address in options.addresses]
            self._folder = Path(self._of_rank_0(self._make_folder))
            self._clients = [Client(address, key) for address in addresses]
            self.load_weights(policy.weights(), 0)
        except BaseException:
            self.close()
            raise
        say(f"vllm      {', '.join(client.address for client in self._clients)}; {self._proof.shown}")

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Write the weights once, have every server read them, and read back what each then holds.

        Raises:
            BrokenRunError: where a server holds others than it was given.
            GroupwiseError: where one is gone for longer than `wait_seconds`.
        """
        given = for_engine(self._policy.model, weights, self._dtype)
        before, self.version = self._weights_folder, version
        if self._ranks.rank == 0:
            # A new folder each time: a server may keep what it read from a path that it knows.
            new = self._weights_folder.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            save_file({name: _alone_in_memory(weight, name) for name, weight in given.items()}, new / WEIGHTS)
            shutil.rmtree(self._weights_folder, ignore_errors=True)
            new.rename(self._weights_folder)
        if not self._clients:
            self._clients = [Client(self._of_rank_0(self._start))]
        if self._ranks.rank == 0:
            for client in self._clients:
                self._until_ready(client, given)
            if before != self._weights_folder:
                shutil.rmtree(before, ignore_errors=True)
        self._ranks.gather(0, "the weights for vLLM")

    def sleep(self) -> None:
        """A server keeps its memory."""

    def sample_fewer(self) -> int:
        """A server fits what it samples at once into its own cache."""
        return 0

    def close(self) -> None:
        """End the server that was started, and remove the weights that were handed over."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._process is not None:
            self._process.close()
        if self._folder is not None and self._ranks.rank == 0:
            shutil.rmtree(self._folder, ignore_errors=True)

    def stream(
        self, requests: Sequence[SampleRequest], sampling: SamplingParams
    ) -> Iterator[tuple[int, list[Completion]]]:
        """See `RolloutEngine`.

        Raises:
            GroupwiseError: where no server answers for longer than `wait_seconds`, or one refuses a request.
        """
        form.check_room(requests, self._policy)
        stop = form.stop_texts(self._policy, sampling)
        unsent = [
            Wanted(index, sample, self._body(request, seed, sampling))
            for index, request in enumerate(requests)
            for sample, seed in enumerate(request.seeds)
        ]
        sent: dict[Future[Any], tuple[Wanted, Client]] = {}
        answers: list[dict[int, Completion]] = [{} for _ in requests]
        try:
            while unsent or sent:
                for wanted in unsent:
                    client = self._least_busy()
                    client.in_flight += 1
                    sent[self._threads.submit(self._ask, client, wanted)] = wanted, client
                unsent = []
                now("an answer of vLLM")
                for future in wait(sent, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED).done:
                    wanted, client = sent.pop(future)
                    client.in_flight -= 1
                    try:
                        answer = future.result()
                    except ServerGoneError as error:
                        self._note_gone(client, error)
                        unsent.append(wanted)
                        continue
                    own = answers[wanted.index]
                    own[wanted.sample] = self._completion(answer, sampling, stop)
                    if len(own) == len(requests[wanted.index].seeds):
                        yield wanted.index, [own[sample] for sample in range(len(own))]
        finally:
            self._abort(sent)

    @property
    def _weights_folder(self) -> Path:
        assert self._folder is not None
        return self._folder / f"weights-{self.version}"

    @property
    def _label(self) -> str:
        """The name of these weights, which no other run gives."""
        assert self._folder is not None
        return f"{self._folder.name}-{self.version}"

    def _of_rank_0(self, make: Callable[[], str]) -> str:
        return self._ranks.gather(make() if self._ranks.rank == 0 else "", "the start of vLLM")[0]

    def _make_folder(self) -> str:
        shared = Path("/dev/shm")
        parent = Path(self._options.folder) if self._options.folder else shared if shared.is_dir() else None
        if self._options.folder:
            Path(self._options.folder).mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="groupwise-vllm-", dir=parent))
        if self._options.addresses:
            # A server may be another user's.
            folder.chmod(0o755)
        return str(folder)

    def _start(self) -> str:
        assert self._folder is not None
        self._process = ServerProcess(self._policy, self._options, self._folder, self._weights_folder / WEIGHTS)
        self._say("vllm      a server starts …")
        self._process.start()
        return self._process.address

    def _body(self, request: SampleRequest, seed: int, sampling: SamplingParams) -> dict[str, Any]:
        fields = form.arguments(sampling, seed, len(request.prompt_ids), self._policy)
        return {"request_id": uuid.uuid4().hex, "token_ids": request.prompt_ids.tolist(), "sampling_params": fields}

    def _ask(self, client: Client, wanted: Wanted) -> Any:
        """In a thread: one answer. Raises ServerGoneError also where it was sampled with other weights."""
        (answer,) = client.call("/inference/v1/generate", wanted.body, self._options.wait_seconds)["choices"]
        versions = {str(span["version"]) for span in answer["weight_versions"] or []}
        if versions - {self._label}:
            found = ", ".join(sorted(versions))
            raise ServerGoneError(f"{client.address} sampled with weights {found}: it was started again")
        if answer["finish_reason"] not in ("stop", "length"):
            raise ServerGoneError(f"{client.address} gave an answer up: {answer['finish_reason']}")
        return answer

    def _completion(self, answer: Any, sampling: SamplingParams, stop: StopStrings | None) -> Completion:
        content = answer["logprobs"]["content"]
        candidates = None
        if sampling.record_kept:
            candidates = [{entry["token_id"]: _logp(entry) for entry in (own, *own["top_logprobs"])} for own in content]
        logps = [_logp(own) for own in content]
        is_stopped = answer["finish_reason"] == "stop"
        return form.completion(answer["token_ids"], logps, candidates, is_stopped, sampling, stop, self.version)

    def _least_busy(self) -> Client:
        """A server that answers, as far as known; if none does, this waits for one."""
        alive = [client for client in self._clients if not client.is_down]
        if not alive:
            client = self._clients[0]
            self._until_ready(client, load_file(self._weights_folder / WEIGHTS))
            return client
        return min(alive, key=lambda client: client.in_flight)

    def _note_gone(self, client: Client, error: ServerGoneError) -> None:
        if not client.is_down:
            client.is_down = True
            self._say(f"warning: {error}; what it did not finish is asked again")

    def _until_ready(self, client: Client, given: Mapping[str, Tensor]) -> None:
        """Wait until a server answers and has the weights of this version, starting it again if it is the run's own."""
        began, failed = time.monotonic(), 0
        while True:
            now("a vLLM server")
            try:
                with self._alone():
                    self._hand_over(client, given)
            except (ServerGoneError, ServerRefusedError) as error:
                waited = time.monotonic() - began
                failed = failed + 1 if client.is_healthy() else 0
                words = "" if self._process is None else f". Its log ends with:\n{self._process.last_words()}"
                if isinstance(error, ServerRefusedError) or failed > FAILURES or waited > self._options.wait_seconds:
                    raise GroupwiseError(f"vLLM cannot be used after {waited:.0f} s: {error}{words}") from error
                if self._process is not None and not self._process.is_running:
                    if not client.is_down and self.version == 0:
                        raise GroupwiseError(f"the vLLM server ended while it started{words}") from error
                    self._say("vllm      the server starts again …")
                    self._process.start()
                time.sleep(LOOK_SECONDS)
            else:
                client.is_down = False
                return

    def _hand_over(self, client: Client, given: Mapping[str, Tensor]) -> None:
        seconds = self._options.wait_seconds
        if client.weight_version() == self._label:
            return
        client.call("/pause?mode=keep", seconds=seconds)
        try:
            client.rpc("reload_weights", seconds, weights_path=str(self._weights_folder))
            client.call("/reset_prefix_cache", seconds=seconds)
            self._proof.check(given, lambda seed: client.rpc("read_digests", seconds, seed=seed)[0], self.version)
            client.call("/update_weight_version", {"new_version": self._label})
        finally:
            with suppress(ServerGoneError):
                client.call("/resume")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One rank at a time hands weights over."""
        assert self._folder is not None
        with (self._folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _abort(self, sent: Mapping[Future[Any], tuple[Wanted, Client]]) -> None:
        """What is not waited for any more is not sampled any more."""
        for future in sent:
            future.cancel()
        for client in self._clients:
            names = [wanted.body["request_id"] for wanted, its in sent.values() if its is client]
            client.in_flight -= len(names)
            if names:
                with suppress(ServerGoneError, ServerRefusedError):
                    client.call("/inference/v1/abort_requests", {"request_ids": names})


def _alone_in_memory(weight: Tensor, name: str) -> Tensor:
    """A tied head shares its memory with the embeddings, which safetensors refuses to write."""
    return weight.cpu().clone() if name == HEAD else weight.cpu()


def _logp(entry: Mapping[str, Any]) -> float:
    """JSON has no infinity: vLLM writes -9999 for it."""
    value = float(entry["logprob"])
    return -np.inf if value <= -9999.0 else value
