"""Log-probabilities and entropies of sampled tokens under the policy."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from groupwise.model.backends.packed_cpu.in_place import takes_in_place
from groupwise.model.backends.packed_cpu.layers import hidden_states
from groupwise.model.backends.packed_cpu.supported import is_plain_map
from groupwise.model.backends.packed_cpu.token_scores import TokenScores
from groupwise.model.load import Policy
from groupwise.model.packing import PackedBatch
from groupwise.objective.entropy import token_entropy
from groupwise.objective.sampling_mask import kept_logits, kept_mask


@dataclass(frozen=True)
class Scoring:
    """How tokens are scored: the same for every policy that scores them.

    temperature: of the sampler. chunk_tokens: response positions whose logits exist at one time.
    entropy_gradient: whether the entropies carry gradient, for a bonus. recompute_layers: whether the backward pass
    computes the layers again, so that the forward pass keeps only their inputs.
    """

    temperature: float
    chunk_tokens: int
    entropy_gradient: bool = False
    recompute_layers: bool = False
    in_place: bool = False


@dataclass(frozen=True)
class Kept:
    """The recorded sets of all response tokens, end to end, and the size of each."""

    ids: Tensor
    counts_N: Tensor


@dataclass(frozen=True)
class Scores:
    """Over N, float32, or float64 where the weights are.

    logps_N: of each token. entropies_N: in nats, at the sampling temperature over the kept set. entropies_at_1_N: at
    temperature 1 over the whole vocabulary, without gradient.
    """

    logps_N: Tensor
    entropies_N: Tensor
    entropies_at_1_N: Tensor


def score(policy: Policy, batch: PackedBatch, scoring: Scoring, kept: Kept | None = None) -> Scores:
    """Score every response token at the sampling temperature and, where sets were recorded, over its kept set.

    The logits exist for `chunk_tokens` response positions at a time, and of these for a tile of the vocabulary at a
    time where the head is a plain one. The backward pass computes them again but for those that it is cheap to keep.
    """
    with policy.arithmetic():
        hidden_TD = hidden_states(policy.backbone, batch, scoring.recompute_layers, scoring.in_place)
        hidden_ND = hidden_TD.index_select(0, batch.predictor_N)
        size, head = scoring.chunk_tokens, policy.head
        if streams_vocabulary(head, scoring, kept is not None):
            targets_N, heat = batch.target_ids_N, scoring.temperature
            weight_VD = cast("nn.Parameter", head.weight)
            in_place = scoring.in_place and takes_in_place(weight_VD)
            return Scores(*TokenScores.apply(hidden_ND, weight_VD, targets_N, heat, size, in_place))
        sets = [None] * len(hidden_ND.split(size)) if kept is None else _split(kept, size)
        recompute = hidden_ND.requires_grad and hidden_ND.shape[0] > size
        scored = []
        for hidden_CD, target_C, kept_C in zip(
            hidden_ND.split(size), batch.target_ids_N.split(size), sets, strict=True
        ):
            arguments = (head, hidden_CD, target_C, scoring, kept_C)
            if recompute:
                scored.append(checkpoint(_score_chunk, *arguments, use_reentrant=False))
            else:
                scored.append(_score_chunk(*arguments))
    return Scores(*(torch.cat(parts) for parts in zip(*scored, strict=True)))


def streams_vocabulary(head: nn.Module, scoring: Scoring, over_kept_sets: bool) -> bool:
    """Whether the scores are computed without a tensor of logits as wide as the vocabulary, see token_scores.py."""
    return not over_kept_sets and not scoring.entropy_gradient and is_plain_map(head) and head.bias is None


def _score_chunk(
    head: nn.Module, hidden_CD: Tensor, target_C: Tensor, scoring: Scoring, kept: Kept | None
) -> tuple[Tensor, Tensor, Tensor]:
    logits_CV = head(hidden_CD)
    logits_CV = logits_CV.to(torch.promote_types(logits_CV.dtype, torch.float32))
    scaled_CV = logits_CV if scoring.temperature == 1.0 else logits_CV / scoring.temperature
    if kept is not None:
        mask_CV = kept_mask(kept.ids, kept.counts_N, logits_CV.shape[1])
        scaled_CV = kept_logits(scaled_CV, mask_CV, target_C)
    logps_CV = torch.log_softmax(scaled_CV, dim=-1)
    logps_C = logps_CV.gather(1, target_C.unsqueeze(1)).squeeze(1)
    entropies_C = token_entropy(scaled_CV) if scoring.entropy_gradient else _entropy(logps_CV.detach())
    at_1_C = entropies_C.detach()
    if scaled_CV is not logits_CV:
        at_1_C = _entropy(torch.log_softmax(logits_CV.detach(), dim=-1))
    return logps_C, entropies_C, at_1_C


def _entropy(logps_CV: Tensor) -> Tensor:
    """Entropy from log-probabilities that are computed already; those of minus infinity add nothing."""
    entropies_C: Tensor = torch.special.entr(logps_CV.exp()).sum(dim=-1)
    return entropies_C


def _split(kept: Kept, size: int) -> list[Kept]:
    counts = kept.counts_N.split(size)
    ids = kept.ids.split([int(part.sum()) for part in counts])
    return [Kept(*pair) for pair in zip(ids, counts, strict=True)]
