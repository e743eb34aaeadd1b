"""The model's own layers on packed tokens: its modules run unchanged, and their attention is our plan's.

Axes: T packed tokens, N response tokens, C of them in a chunk, V vocabulary, D model width.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from groupwise.model.backends.activation_checkpointing import checkpointed_layers
from groupwise.model.backends.in_place import takes_in_place
from groupwise.model.backends.protocol import InPlace, SamplingMask, Scores, Scoring
from groupwise.model.backends.supported import is_plain_linear
from groupwise.model.backends.token_scores import TokenScores
from groupwise.model.load import Policy
from groupwise.model.packing import PackedBatch
from groupwise.objective.entropy.token_entropy import token_entropy
from groupwise.objective.sampling_mask import kept_logits, kept_mask


class Packed:
    """See `Backend`. Layers and head are called as modules, so that whatever replaced one of them takes part."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def hidden_states(self, batch: PackedBatch, scoring: Scoring) -> Tensor:
        """Hidden states behind the last norm, (T, D)."""
        backbone = self.policy.backbone
        with checkpointed_layers(backbone, scoring.checkpoint_layers):
            hidden_1TD: Tensor = backbone(
                input_ids=batch.token_ids_1T,
                position_ids=batch.position_ids_1T,
                use_cache=False,
                plan=batch.attention,
            ).last_hidden_state
        return hidden_1TD[0]

    def score(self, batch: PackedBatch, scoring: Scoring, mask: SamplingMask | None = None) -> Scores:
        """See `Backend`.

        The logits exist for `chunk_tokens` response positions at a time, and of these for a tile of the vocabulary at a
        time where the head is a plain one. The backward pass computes them again but for those that it is cheap to
        keep.
        """
        hidden_ND = self.hidden_states(batch, scoring).index_select(0, batch.predictor_N)
        head, size = self.policy.head, scoring.chunk_tokens
        if _streams_vocabulary(head, scoring, mask is not None):
            weight_VD = cast("nn.Parameter", head.weight)
            in_place = scoring.in_place and takes_in_place(weight_VD)
            arguments = (hidden_ND, weight_VD, batch.target_ids_N, scoring.temperature, size)
            return Scores(*TokenScores.apply(*arguments, in_place, scoring.square_sums))
        masks = [None] * len(hidden_ND.split(size)) if mask is None else _split(mask, size)
        recompute = hidden_ND.requires_grad and hidden_ND.shape[0] > size
        scored = []
        for hidden_CD, target_C, mask_C in zip(
            hidden_ND.split(size), batch.target_ids_N.split(size), masks, strict=True
        ):
            chunk = (head, hidden_CD, target_C, scoring, mask_C)
            if recompute:
                scored.append(checkpoint(_score_chunk, *chunk, use_reentrant=False))
            else:
                scored.append(_score_chunk(*chunk))
        return Scores(*(torch.cat(parts) for parts in zip(*scored, strict=True)))

    def in_place(self, scoring: Scoring, masked: bool) -> InPlace:
        """See `Backend`."""
        head = self.policy.head
        streams = _streams_vocabulary(head, scoring, masked)
        return InPlace(head=streams and all(map(takes_in_place, head.parameters())), embedding=False)


def _streams_vocabulary(head: nn.Module, scoring: Scoring, masked: bool) -> bool:
    """Whether the scores are computed without a tensor of logits as wide as the vocabulary, see token_scores.py."""
    return not masked and not scoring.entropy_gradient and is_plain_linear(head) and head.bias is None


def _score_chunk(
    head: nn.Module, hidden_CD: Tensor, target_C: Tensor, scoring: Scoring, mask: SamplingMask | None
) -> tuple[Tensor, ...]:
    logits_CV = head(hidden_CD)
    logits_CV = logits_CV.to(torch.promote_types(logits_CV.dtype, torch.float32))
    scaled_CV = logits_CV if scoring.temperature == 1.0 else logits_CV / scoring.temperature
    if mask is not None:
        mask_CV = kept_mask(mask.ids, mask.counts_N, logits_CV.shape[1])
        scaled_CV = kept_logits(scaled_CV, mask_CV, target_C)
    logps_CV = torch.log_softmax(scaled_CV, dim=-1)
    logps_C = logps_CV.gather(1, target_C.unsqueeze(1)).squeeze(1)
    entropies_C = token_entropy(scaled_CV) if scoring.entropy_gradient else _entropy(logps_CV.detach())
    at_1_C = entropies_C.detach()
    if scaled_CV is not logits_CV:
        at_1_C = _entropy(torch.log_softmax(logits_CV.detach(), dim=-1))
    # A token outside of the kept set has the log-probability -inf and adds 0.
    squares = [(2 * logps_CV.detach()).exp().sum(dim=-1)] if scoring.square_sums else []
    return logps_C, entropies_C, at_1_C, *squares


def _entropy(logps_CV: Tensor) -> Tensor:
    """Entropy from log-probabilities that are computed already; those of minus infinity add nothing."""
    entropies_C: Tensor = torch.special.entr(logps_CV.exp()).sum(dim=-1)
    return entropies_C


def _split(mask: SamplingMask, size: int) -> list[SamplingMask]:
    counts = mask.counts_N.split(size)
    ids = mask.ids.split([int(part.sum()) for part in counts])
    return [SamplingMask(*pair) for pair in zip(ids, counts, strict=True)]
