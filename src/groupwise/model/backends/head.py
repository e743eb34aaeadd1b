"""From hidden states to scores: the output head, with the scales and caps that a model puts behind it.

Axes: N response tokens, C of them in a chunk, V vocabulary, D model width.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from groupwise.model.backends.in_place import takes_in_place
from groupwise.model.backends.protocol import SamplingMask, Scores, Scoring
from groupwise.model.backends.supported import is_plain_linear
from groupwise.model.backends.token_scores import TokenScores
from groupwise.objective.entropy.token_entropy import token_entropy
from groupwise.objective.sampling_mask import kept_logits, kept_mask

Head = Callable[[Tensor], Tensor]

# Options of a model's configuration that change its logits behind the head, where they are neither None nor 1.
CHANGES_LOGITS = ("final_logit_softcapping", "logits_scaling", "logit_scale", "lm_head_multiplier")


class _Given:
    """What stands for the output of a backbone: hidden states, and None for whatever else a model looks for in it."""

    def __init__(self, hidden_1CD: Tensor, router_logits: Sequence[Tensor] | None) -> None:
        self.last_hidden_state, self.router_logits = hidden_1CD, router_logits

    def __getitem__(self, index: int) -> Tensor:
        return (self.last_hidden_state,)[index]

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def backbone_of(model: PreTrainedModel) -> Any:
    """The model without its output head."""
    named = getattr(model, model.base_model_prefix, None)
    # Llama 4 names a part there that only its multimodal form has.
    return model.model if named is None else named


def head_of(model: PreTrainedModel) -> Head:
    """What makes logits, (C, V), of hidden states, (C, D): the output layer, or more where the model does more."""
    changed = any(getattr(model.config, name, None) not in (None, 1.0) for name in CHANGES_LOGITS)
    return partial(own_logits, model) if changed else cast("Head", model.get_output_embeddings())


def own_logits(model: PreTrainedModel, hidden_CD: Tensor) -> Tensor:
    """The logits that the model's own code makes of hidden states behind the last norm."""
    logits_1CV: Tensor = forward_behind(model, hidden_CD.unsqueeze(0)).logits
    return logits_1CV[0]


def forward_behind(
    model: PreTrainedModel, hidden_1CD: Tensor, router_logits: Sequence[Tensor] | None = None, **named: Any
) -> Any:
    """What the model gives where its backbone gave these hidden states and router logits."""
    ids_1C = torch.zeros(hidden_1CD.shape[:2], dtype=torch.int64, device=hidden_1CD.device)
    with _standing_for_backbone(model, _Given(hidden_1CD, router_logits)):
        return model(input_ids=ids_1C, use_cache=False, **named)


@contextmanager
def _standing_for_backbone(model: PreTrainedModel, output: Any) -> Iterator[None]:
    """Whatever the model calls as its backbone gives this inside of the context."""
    called = {id(part): part for part in (backbone_of(model), model.get_decoder()) if part is not model}
    own = {key: vars(part).get("forward") for key, part in called.items()}
    for part in called.values():
        part.forward = lambda *_, **__: output
    try:
        yield
    finally:
        for key, part in called.items():
            if own[key] is None:
                del part.forward
            else:
                part.forward = own[key]


def streams_vocabulary(head: Head, scoring: Scoring, masked: bool) -> bool:
    """Whether the scores are computed without a tensor of logits as wide as the vocabulary, see token_scores.py."""
    bare = isinstance(head, nn.Module) and is_plain_linear(head) and head.bias is None
    return bare and not masked and not scoring.entropy_gradient


def score_hidden(
    head: Head, hidden_ND: Tensor, target_N: Tensor, scoring: Scoring, mask: SamplingMask | None
) -> Scores:
    """The scores of tokens by the hidden states that predict them.

    The logits exist for `chunk_tokens` response positions at a time, and of these for a tile of the vocabulary at a
    time where the head is a plain one. The backward pass computes them again but for those that it is cheap to keep.
    """
    size = scoring.chunk_tokens
    if streams_vocabulary(head, scoring, mask is not None):
        weight_VD = cast("nn.Parameter", cast("nn.Linear", head).weight)
        in_place = scoring.in_place and takes_in_place(weight_VD)
        arguments = (hidden_ND, weight_VD, target_N, scoring.temperature, size)
        return Scores(*TokenScores.apply(*arguments, in_place, scoring.square_sums, scoring.vocabulary))
    masks = [None] * len(hidden_ND.split(size)) if mask is None else _split(mask, size)
    recompute = hidden_ND.requires_grad and hidden_ND.shape[0] > size
    scored = []
    for hidden_CD, target_C, mask_C in zip(hidden_ND.split(size), target_N.split(size), masks, strict=True):
        chunk = (head, hidden_CD, target_C, scoring, mask_C)
        if recompute:
            scored.append(checkpoint(_score_chunk, *chunk, use_reentrant=False))
        else:
            scored.append(_score_chunk(*chunk))
    return Scores(*(torch.cat(parts) for parts in zip(*scored, strict=True)))


def _score_chunk(
    head: Head, hidden_CD: Tensor, target_C: Tensor, scoring: Scoring, mask: SamplingMask | None
) -> tuple[Tensor, ...]:
    logits_CV = head(hidden_CD)[:, : scoring.vocabulary]
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
