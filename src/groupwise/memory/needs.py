"""The bytes of training that follow from the size of the model and the options, without the passes through it."""

from dataclasses import dataclass

from groupwise.config import TrainConfig
from groupwise.model.adapter_options import Adapter
from groupwise.model.size import ModelSize
from groupwise.rollout.engine_options import FLOAT32, EngineMemory


@dataclass(frozen=True)
class Needs:
    """Bytes of one process.

    weights, reference: loaded before the first step. moments: AdamW's, from the first step on. copy: of weights
    and moments as the last step left them, from then on too, where a step has several updates. gradient: while
    training. engine: while sampling, which is over when training begins.
    """

    weights: int
    reference: int
    moments: int
    gradient: int
    engine: EngineMemory
    copy: int = 0

    def peak(self, pass_bytes: int) -> int:
        """The most of a whole step beyond what was loaded, with a pass that needs `pass_bytes`."""
        return self.moments + self.copy + max(self.engine.total, self.gradient + pass_bytes)


def trained_parameters(config: TrainConfig, size: ModelSize) -> int:
    """How many numbers the optimizer updates."""
    adapter = config.model.adapter
    if isinstance(adapter, Adapter):
        return adapter.size(size).parameters
    return size.parameters - (size.embedding_parameters if config.model.trainable == "all_but_embeddings" else 0)


def needs_of(config: TrainConfig, size: ModelSize, longest_prompt: int = 0) -> Needs:
    """The needs of a run whose longest prompt has so many tokens."""
    trained, weights = FLOAT32 * trained_parameters(config, size), FLOAT32 * size.parameters
    reference = weights
    if isinstance(config.model.adapter, Adapter):
        weights += trained - (FLOAT32 - config.model.bytes_per_frozen) * size.linear_parameters
        reference = trained
    return Needs(
        weights=weights,
        reference=reference if config.uses_kl else 0,
        moments=2 * trained,
        gradient=trained,
        engine=config.engine.memory(config, size, longest_prompt),
        copy=3 * trained if config.updates_per_step > 1 else 0,
    )


def shown_bytes(count: int) -> str:
    """Bytes in the unit that fits: `1.7 MiB`."""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
