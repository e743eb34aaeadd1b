"""Log-probabilities and entropies of sampled tokens under the policy."""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from groupwise.policy.load import Policy
from groupwise.policy.packing import PackedBatch


def score(policy: Policy, batch: PackedBatch, temperature: float, chunk_tokens: int) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of every response token, at the sampling temperature.

    The logits exist for `chunk_tokens` response positions at a time: the backward pass computes them again.

    Returns:
        logps_N with gradient, and entropies_N in nats, without gradient; float32.
    """
    with policy.arithmetic():
        hidden_1TD = policy.backbone(
            input_ids=batch.token_ids_1T,
            position_ids=batch.position_ids_1T,
            use_cache=False,
            plan=batch.attention,
        ).last_hidden_state
        hidden_ND = hidden_1TD[0].index_select(0, batch.predictor_N)
        chunks = zip(hidden_ND.split(chunk_tokens), batch.target_ids_N.split(chunk_tokens), strict=True)
        recompute = hidden_ND.requires_grad and hidden_ND.shape[0] > chunk_tokens
        scored = []
        for hidden_CD, target_C in chunks:
            if recompute:
                scored.append(
                    checkpoint(_score_chunk, policy.head, hidden_CD, target_C, temperature, use_reentrant=False)
                )
            else:
                scored.append(_score_chunk(policy.head, hidden_CD, target_C, temperature))
    return torch.cat([logps for logps, _ in scored]), torch.cat([entropies for _, entropies in scored])


def _score_chunk(
    head: torch.nn.Module, hidden_CD: Tensor, target_C: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    logits_CV = head(hidden_CD).float()
    if temperature != 1.0:
        logits_CV = logits_CV / temperature
    logps_CV = torch.log_softmax(logits_CV, dim=-1)
    with torch.no_grad():
        entropies_C = -(logps_CV.exp() * logps_CV).sum(dim=-1)
    return logps_CV.gather(1, target_C.unsqueeze(1)).squeeze(1), entropies_C
