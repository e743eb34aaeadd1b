"""Log-probabilities and entropies of sampled tokens under the policy."""

from dataclasses import replace
from functools import partial

from groupwise.config import TrainConfig
from groupwise.model.backends.packed import Packed
from groupwise.model.backends.packed_cpu.layers import PackedCpu
from groupwise.model.backends.plain import Plain
from groupwise.model.backends.protocol import Backend, SamplingMask, Scores, Scoring
from groupwise.model.backends.supported import is_supported
from groupwise.model.load import Policy
from groupwise.model.packing import PackedBatch
from groupwise.model.shards import score_through

__all__ = ["SamplingMask", "Scores", "Scoring", "backend_of", "score", "scoring_of"]


def scoring_of(config: TrainConfig, entropy_gradient: bool = False, square_sums: bool = False) -> Scoring:
    """How every policy of this run scores tokens."""
    batch = config.batch
    return Scoring(
        temperature=config.sampling.temperature,
        chunk_tokens=batch.logits_chunk_tokens,
        entropy_gradient=entropy_gradient,
        checkpoint_layers=batch.activation_checkpointing,
        in_place=True,
        square_sums=square_sums,
    )


def backend_of(policy: Policy) -> Backend:
    """How the policy is run as it is now; a hook or a replaced layer makes for another packed one."""
    if policy.backend == "plain":
        return Plain(policy)
    # What divides the weights is a hook as well, though one that changes nothing.
    supported = is_supported(policy.backbone) if policy.shards is None else policy.shards.is_supported
    return PackedCpu(policy) if supported else Packed(policy)


def score(policy: Policy, batch: PackedBatch, scoring: Scoring, mask: SamplingMask | None = None) -> Scores:
    """Score every response token at the sampling temperature and, with a sampling mask, over its kept set."""
    with policy.arithmetic():
        make = partial(backend_of(policy).score, batch, replace(scoring, vocabulary=policy.vocabulary), mask)
        return make() if policy.shards is None else score_through(policy.model, make)
