"""What a back-end of the model is: a packed batch in, log-probabilities and entropies of its response tokens out."""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from torch import Tensor

from groupwise.model.packing import PackedBatch


@dataclass(frozen=True)
class Scoring:
    """How tokens are scored: the same for every policy that scores them.

    temperature: of the sampler. chunk_tokens: response positions whose logits exist at one time. entropy_gradient:
    whether the entropies carry gradient, for a bonus. checkpoint_layers: activation checkpointing, the forward pass
    keeps only the inputs of the layers, and the backward pass computes them again. in_place: gradients of the widest
    weights are added to `.grad` (see in_place.py). square_sums: whether Σ_v π(v)² is computed too. vocabulary: tokens
    from this id on have probability 0 (see `Policy`); `score` takes it from the policy.
    router: whether the routers of a mixture of experts are measured.
    """

    temperature: float
    chunk_tokens: int
    entropy_gradient: bool = False
    checkpoint_layers: bool = False
    in_place: bool = False
    square_sums: bool = False
    vocabulary: int | None = None
    router: bool = False


@dataclass(frozen=True)
class SamplingMask:
    """The recorded kept sets of all response tokens, end to end, and the size of each."""

    ids: Tensor
    counts_N: Tensor


@dataclass(frozen=True)
class Routed:
    """The routers of a mixture of experts over the tokens that a pass read.

    loss: the model's auxiliary loss, with gradient, without its coefficient. load_max: tokens of the fullest expert
    over the mean of its layer, in the most uneven layer. entropy: of a token's experts in nats, the mean over layers.
    """

    loss: Tensor
    load_max: Tensor
    entropy: Tensor


@dataclass(frozen=True)
class Scores:
    """Over N, float32, or float64 where the weights are.

    logps_N: of each token. entropies_N: in nats, at the sampling temperature over the kept set. entropies_at_1_N: at
    temperature 1 over the whole vocabulary, without gradient. square_sums_N: Σ_v π(v)² of the distribution that the
    token was drawn from, as for `logps_N`, without gradient; None unless asked for, as `routed`.
    """

    logps_N: Tensor
    entropies_N: Tensor
    entropies_at_1_N: Tensor
    square_sums_N: Tensor | None = None
    routed: Routed | None = field(default=None, kw_only=True)


class InPlace(NamedTuple):
    """Whether the gradients of head and embedding are added to `.grad`, so that autograd makes none of their size."""

    head: bool
    embedding: bool


class Backend(Protocol):
    """One way to run a model over packed tokens."""

    def score(self, batch: PackedBatch, scoring: Scoring, mask: SamplingMask | None = None) -> Scores:
        """Score every response token, with gradient, inside `Policy.arithmetic`."""
        ...

    def in_place(self, scoring: Scoring, masked: bool) -> InPlace:
        """Which wide gradients a pass with or without a sampling mask adds where they are."""
        ...
