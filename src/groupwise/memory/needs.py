"""The bytes of training that follow from the size of the model and the options, without the passes through it."""

from dataclasses import dataclass, replace

from groupwise.config import TrainConfig
from groupwise.model.adapter_options import Adapter, NoAdapter
from groupwise.model.size import ModelSize
from groupwise.rollout.engine_options import FLOAT32, EngineMemory, InProcess


@dataclass(frozen=True)
class Needs:
    """Bytes of one process.

    weights, reference: loaded before the first step. moments: the optimizer's, from the first step on. copy: of weights
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


def needs_of(config: TrainConfig, size: ModelSize, longest_prompt: int = 0, divided_by: int = 1) -> Needs:
    """The needs of a run whose longest prompt has so many tokens.

    divided_by: how many ranks divide weights, gradient and moments among them. Each then gathers the embeddings and two
    layers at a time, with their gradients, and an engine in this process has all weights for itself.
    """
    trained, weights = FLOAT32 * trained_parameters(config, size), FLOAT32 * size.parameters
    reference = weights
    if isinstance(config.model.adapter, Adapter):
        weights += trained - (FLOAT32 - config.model.bytes_per_frozen) * size.linear_parameters
        reference = trained
    moments = _moments(config, size, trained)
    engine, gathered = config.engine.memory(config, size, longest_prompt), 0
    if divided_by > 1:
        layers = 2 * (size.parameters - size.embedding_parameters) // size.layers
        gathered = 2 * FLOAT32 * (size.embedding_parameters + layers)
        if isinstance(config.engine, InProcess):
            engine = replace(engine, weights=max(engine.weights, config.model.bytes_per_value * size.parameters))
    return Needs(
        weights=-(-weights // divided_by),
        reference=-(-reference // divided_by) if config.uses_kl else 0,
        moments=-(-moments // divided_by),
        gradient=-(-trained // divided_by) + gathered,
        engine=engine,
        copy=-(-(trained + moments) // divided_by) if config.updates_per_step > 1 else 0,
    )


def _moments(config: TrainConfig, size: ModelSize, trained: int) -> int:
    """Muon has one in place of two of the matrices within layers."""
    whole = isinstance(config.model.adapter, NoAdapter)
    return 2 * trained - (FLOAT32 * size.linear_parameters if config.optimizer.type == "muon" and whole else 0)


def shown_bytes(count: int) -> str:
    """Bytes in the unit that fits: `1.7 MiB`."""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
