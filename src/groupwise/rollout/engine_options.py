"""Which engine samples, its options, and the memory that it needs while it samples. The list of engines."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from groupwise.model.adapter_options import NoAdapter
from groupwise.options import PositiveInt
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


# With a second one: Annotated[InProcess | Second, Field(discriminator="type"), by_name(InProcess)].
EngineOption = Annotated[InProcess, by_name(InProcess)]
