"""Which engine samples, its options, and the memory that it needs while it samples. The list of engines."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from groupwise.model.adapter_options import NoAdapter
from groupwise.options import PositiveFloat, PositiveInt
from groupwise.technique import Technique, by_name

if TYPE_CHECKING:
    from groupwise.config import TrainConfig
    from groupwise.model.size import ModelSize

FLOAT32 = 4


@dataclass(frozen=True)
class EngineMemory:
    """Bytes on the trainer's device that are needed while sampling alone, at their largest.

    weights: a copy of them. cache: keys and values of all answers, at full length. work: everything else.
    """

    weights: int
    cache: int
    work: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.work


class Engine(Technique):
    """Base of the engines' options: what a plan of memory asks of every one of them.

    lower: the option of the engine that makes it need less, for messages.
    """

    lower: ClassVar[str]

    @abstractmethod
    def sequences_at_once(self, config: TrainConfig) -> int:
        """How many answers of a step are sampled at the same time, at most."""

    @abstractmethod
    def memory(self, config: TrainConfig, size: ModelSize, longest_prompt: int = 0) -> EngineMemory:
        """The bytes for a step of training whose longest prompt has so many tokens."""


class InProcess(Engine):
    """Samples in the trainer's own process, with its weights or a copy of them in the compute dtype."""

    type: Literal["inprocess"] = "inprocess"
    lower: ClassVar[str] = "engine.batch_sequences"

    batch_sequences: PositiveInt = 256
    """How many sequences are decoded at once, at most."""

    def sequences_at_once(self, config: TrainConfig) -> int:
        return min(self.batch_sequences, config.most_answers_per_step)

    def memory(self, config: TrainConfig, size: ModelSize, longest_prompt: int = 0) -> EngineMemory:
        width, samples = config.model.bytes_per_value, config.batch.samples_per_prompt
        sequences = self.sequences_at_once(config)
        prompts = -(-sequences // samples)
        of_token = width * size.cache_values_per_token
        # The model's own cache holds a prompt for each of its answers.
        repeated = longest_prompt if config.model.backend == "plain" else 0
        cache = of_token * sequences * (config.sampling.max_new_tokens + repeated)
        # While the cache grows, the old part of one layer stands next to the new one.
        growing = cache // size.layers
        # Logits, two of their copies and the probabilities; of the prompts also one layer's values while they are read.
        logits = 4 * FLOAT32 * sequences * size.vocabulary
        layer = width * (4 * size.hidden + 3 * size.intermediate)
        reading = (of_token + layer) * prompts * longest_prompt
        return EngineMemory(weights=width * _copied(config, size), cache=cache, work=growing + logits + reading)


def _copied(config: TrainConfig, size: ModelSize) -> int:
    """How many weights the engine has copies of: those that are merged, and those in another precision."""
    model = config.model
    if isinstance(model.adapter, NoAdapter):
        return 0 if config.engine_is_trainer else size.parameters
    adapted = model.adapter.size(size).adapted
    frozen = 0 if model.bytes_per_frozen == model.bytes_per_value else size.linear_parameters - adapted
    others = 0 if model.bytes_per_value == FLOAT32 else size.parameters - size.linear_parameters
    return adapted + frozen + others


class VllmBase(Engine):
    """What both ways to use vLLM have in common."""

    lower: ClassVar[str] = "engine.cache_gib"

    batch_sequences: PositiveInt = 256
    """How many sequences vLLM samples at once, at most."""

    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """What vLLM computes in; `auto` for `model.compute_dtype`."""

    context_tokens: PositiveInt | None = None
    """Longest prompt and answer together, in tokens; the model's context where it is not stated."""

    cache_gib: PositiveFloat = 4.0
    """Memory of vLLM's cache of keys and values, in GiB; on a CPU whole ones."""

    enforce_eager: bool = False
    """Do without CUDA graphs: starts sooner, samples slower. On a CPU always."""

    def sequences_at_once(self, config: TrainConfig) -> int:
        return min(self.batch_sequences, config.most_answers_per_step)

    def width(self, config: TrainConfig) -> int:
        """Bytes of a value in vLLM."""
        return config.model.bytes_per_value if self.dtype == "auto" else {"float32": 4, "bfloat16": 2}[self.dtype]

    def memory(self, config: TrainConfig, size: ModelSize, longest_prompt: int = 0) -> EngineMemory:  # noqa: ARG002
        # Weights are handed over in a copy that lives while they are loaded.
        weights = self.width(config) * size.parameters
        return EngineMemory(weights=weights, cache=int(self.cache_gib * 2**30), work=weights)


class Vllm(VllmBase):
    """vLLM in the trainer's process, on each rank's device; it sleeps while the trainer trains."""

    type: Literal["vllm"] = "vllm"


class VllmServer(VllmBase):
    """vLLM as a server over HTTP, which groupwise starts, or as several that run already."""

    type: Literal["vllm_server"] = "vllm_server"

    addresses: list[str] = Field(default=[])
    """Servers that run already, as in `http://10.0.0.7:8000`: loopback or private addresses alone. Without any, one is
    started on this machine."""

    folder: str = ""
    """Where weights are handed over: a folder that every server can read under the same path. Without one, shared
    memory of this machine."""

    wait_seconds: PositiveFloat = 600.0
    """How long a server may be gone, hang or start before the run stops with a checkpoint."""

    api_key_variable: str = ""
    """Environment variable with the servers' API key; needed where an address is not loopback."""

    def memory(self, config: TrainConfig, size: ModelSize, longest_prompt: int = 0) -> EngineMemory:
        if self.addresses:
            # The weights that are written for them, one at a time in their dtype.
            return EngineMemory(weights=0, cache=0, work=self.width(config) * size.parameters)
        return super().memory(config, size, longest_prompt)


EngineOption = Annotated[InProcess | Vllm | VllmServer, Field(discriminator="type"), by_name(InProcess)]
