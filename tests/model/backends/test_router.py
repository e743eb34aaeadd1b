"""Routers of a mixture of experts: the auxiliary loss and its gradient are the model's own, loads are counted."""

from typing import Any

import numpy as np
import pytest
import torch

from groupwise.model.backends.router import has_router_loss
from groupwise.model.choose_backend import choose_backend
from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.score import Scoring, score
from tests.support.tiny import gradients, policy_of, relative_difference
from tests.support.zoo import VOCABULARY, ZOO, build

WITH_LOSS = ("GPT-OSS", "Mixtral", "Qwen3-MoE", "Qwen3-Next")
# Packed tokens are read in another order than padded ones, and a prompt of one completion once by both.
GROUPS = [
    SequenceGroup(ids[:prompt], (ids[prompt : prompt + answer],))
    for ids, (prompt, answer) in zip(
        np.random.default_rng(0).integers(0, VOCABULARY, (3, 40)), ((7, 9), (1, 20), (12, 2)), strict=True
    )
]


def test_which_models_have_one() -> None:
    assert tuple(sorted(name for name in ZOO if has_router_loss(build(name)))) == WITH_LOSS


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("asked", ["auto", "plain"])
@pytest.mark.parametrize("name", ["Mixtral", "GPT-OSS", "Qwen3-Next"])
def test_the_loss_is_the_models_own(name: str, asked: Any, checkpointing: bool) -> None:
    """Against one padded batch of whole sequences, whose last tokens predict nothing and are not read here."""
    model = build(name)
    rows = [np.concatenate([g.prompt_ids, g.completion_ids[0][:-1]]) for g in GROUPS]
    width = max(map(len, rows))
    ids_BT = torch.tensor([[*row, *([0] * (width - len(row)))] for row in rows])
    mask_BT = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    output = model(input_ids=ids_BT, attention_mask=mask_BT, output_router_logits=True, use_cache=False)
    output.aux_loss.backward()

    policy, _ = choose_backend(policy_of(model, max_context_tokens=256), asked, 16)
    policy.model.zero_grad()
    scores = score(policy, pack(GROUPS, policy.device), Scoring(1.0, 8, checkpoint_layers=checkpointing, router=True))
    assert scores.routed is not None
    scores.routed.loss.backward()
    torch.testing.assert_close(scores.routed.loss, output.aux_loss, atol=1e-5, rtol=0)
    ours = {name: g for name, g in gradients(policy.model).items() if float(g.abs().max()) > 0}
    theirs = {name: g for name, g in gradients(model).items() if float(g.abs().max()) > 0}
    assert relative_difference(ours, theirs) < 1e-4

    kept = mask_BT.flatten().bool()
    top = [layer.detach().reshape(-1, layer.shape[-1])[kept].softmax(-1) for layer in output.router_logits]
    counts = [np.bincount(shares.topk(2).indices.flatten().numpy(), minlength=4) for shares in top]
    assert float(scores.routed.load_max) == pytest.approx(max(c.max() / c.mean() for c in counts))
    entropy = np.mean([float(-(shares * shares.log()).sum(-1).mean()) for shares in top])
    assert float(scores.routed.entropy) == pytest.approx(entropy, rel=1e-4)
    assert score(policy, pack(GROUPS, policy.device), Scoring(1.0, 8)).routed is None
