"""vLLM in this process, on this rank's device."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from groupwise.completion import Completion
from groupwise.errors import UsageError
from groupwise.model.load import Policy
from groupwise.ranks import Ranks
from groupwise.rollout.engine import RolloutEngine, SampleRequest, SamplingParams
from groupwise.rollout.engine_options import Vllm
from groupwise.rollout.vllm import requests as form
from groupwise.rollout.vllm.arguments import dtype_of, engine_arguments, environment, write_configuration
from groupwise.rollout.vllm.weights import WeightProof, for_engine
from groupwise.stopping import now


class VllmEngine(RolloutEngine):
    """Takes the trainer's weights over after each step; what it then holds is read back and compared."""

    def __init__(self, policy: Policy, options: Vllm, say: Callable[[str], None]) -> None:
        # Both are read when vllm is imported: the engine core in a process of its own could not share the device.
        os.environ.update({"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR"})
        for name, value in environment(options.cache_gib).items():
            os.environ.setdefault(name, value)
        try:
            import vllm
        except ImportError as error:
            raise UsageError(
                "engine=vllm needs vLLM 0.32 or newer, which cannot be imported here: install groupwise[vllm] on a "
                f"machine with a GPU, or take engine=inprocess ({error})"
            ) from error
        self._policy, self._dtype = policy, dtype_of(options, policy)
        self._parameters = vllm.SamplingParams
        self._folder = tempfile.TemporaryDirectory(prefix="groupwise-vllm-")
        write_configuration(policy, Path(self._folder.name))
        threads = torch.get_num_threads()
        is_cpu = policy.device.type == "cpu"
        self._sleeps = not is_cpu
        self._llm = vllm.LLM(
            model=self._folder.name,
            load_format="dummy",
            distributed_executor_backend="uni" if Ranks.current().size == 1 else "external_launcher",
            enable_sleep_mode=self._sleeps,
            disable_log_stats=True,
            seed=0,
            **engine_arguments(options, self._dtype, policy.max_context_tokens, is_cpu),
        )
        torch.set_num_threads(threads)
        self._proof = WeightProof()
        self._is_asleep = False
        self._sent = 0
        self.version = 0
        self.load_weights(policy.weights(), 0)
        say(f"vllm      {vllm.__version__}, {self._proof.shown}")

    def load_weights(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Hand over the weights, forget the keys and values of the old ones, and read back what is there.

        Raises:
            BrokenRunError: where it holds others than it was given.
        """
        if self._is_asleep:
            self._llm.wake_up()
            self._is_asleep = False
        given = for_engine(self._policy.model, weights, self._dtype)
        self._reload(given)
        self._llm.reset_prefix_cache()
        self._llm.update_weight_version(str(version))
        self._proof.check(given, self._read, version)
        self.version = version

    def sleep(self) -> None:
        """On an accelerator, give back weights and cache."""
        if self._sleeps:
            self._llm.sleep(level=2)
            self._is_asleep = True

    def sample_fewer(self) -> int:
        """It fits what it samples at once into its cache itself."""
        return 0

    def close(self) -> None:
        """End the engine and remove its files."""
        if hasattr(self, "_llm"):
            self._llm.llm_engine.engine_core.shutdown()
            del self._llm
        self._folder.cleanup()

    def stream(
        self, requests: Sequence[SampleRequest], sampling: SamplingParams
    ) -> Iterator[tuple[int, list[Completion]]]:
        """See `RolloutEngine`."""
        if self._is_asleep:
            raise RuntimeError("the engine sleeps: it samples again after load_weights")
        form.check_room(requests, self._policy)
        stop = form.stop_texts(self._policy, sampling)
        engine = self._llm.llm_engine
        # Names that no call shares, since what an abandoned one asked for may still be on its way.
        self._sent += 1
        places: dict[str, tuple[int, int]] = {}
        for index, request in enumerate(requests):
            prompt = {"prompt_token_ids": request.prompt_ids.tolist()}
            for sample, seed in enumerate(request.seeds):
                fields = form.arguments(sampling, seed, len(request.prompt_ids), self._policy)
                name = f"{self._sent}.{index}.{sample}"
                places[name] = index, sample
                engine.add_request(name, prompt, self._parameters(**fields))
        answers: list[dict[int, Completion]] = [{} for _ in requests]
        try:
            while engine.has_unfinished_requests():
                now("an answer of vLLM")
                for output in engine.step():
                    if not output.finished:
                        continue
                    index, sample = places[output.request_id]
                    answers[index][sample] = self._completion(output.outputs[0], sampling, stop)
                    if len(answers[index]) == len(requests[index].seeds):
                        yield index, [answers[index][sample] for sample in range(len(answers[index]))]
        finally:
            if engine.has_unfinished_requests():
                engine.abort_request(list(places))

    def _reload(self, given: Mapping[str, Tensor]) -> None:
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(given.items())})

    def _read(self, seed: int) -> dict[str, list[str]]:
        (found,) = self._llm.collective_rpc("read_digests", kwargs={"seed": seed})
        return dict(found)

    def _completion(self, output: Any, sampling: SamplingParams, stop: Any) -> Completion:
        ids = [int(token) for token in output.token_ids]
        candidates = [{token: entry.logprob for token, entry in own.items()} for own in output.logprobs]
        logps = [own[token] for token, own in zip(ids, candidates, strict=True)]
        kept = candidates if sampling.record_kept else None
        return form.completion(ids, logps, kept, output.finish_reason == "stop", sampling, stop, self.version)
