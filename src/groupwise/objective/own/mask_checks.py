"""What holds for every mask of the policy term, tried on a small fixed batch before anything is loaded or sampled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from groupwise.lazy import torch
from groupwise.objective.masks.policy_mask import MaskInputs, PolicyMask
from groupwise.objective.own.probe import Probe, parts_and_orders, probe
from groupwise.own_code import OwnCodeError

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.objective.ratios.ratio import RatioLevel


def mask_problems(mask: PolicyMask, ratio: RatioLevel) -> list[str]:
    """What is wrong with a mask, each as a sentence; empty where every property holds."""
    try:
        return list(_problems(mask, ratio))
    except OwnCodeError as failure:
        return [f"on a small batch it {failure.text}"]


def _problems(mask: PolicyMask, ratio: RatioLevel) -> Iterator[str]:
    batch = probe()
    step_N = _step_values(mask, ratio, batch)
    given = _inputs(batch, step_N)
    kept_N = mask.kept(given)
    streams = zip((batch.new_N, batch.old_N, batch.sampler_N, batch.advantages_N), _streams(given), strict=True)
    if any(not torch.equal(before, after) for before, after in streams):
        yield "it changes its inputs in place; compute with methods without a trailing underscore, such as clamp"
    if not torch.equal(mask.kept(_inputs(batch, step_N)), kept_N):
        yield "two calls with the same inputs keep different tokens; leave random numbers and state out"
    mask.kept(_inputs(batch.to(torch.float32), None if step_N is None else step_N.float()))
    parts, order = parts_and_orders(batch)
    for part in parts:
        tokens_N = batch.tokens_of(part)
        alone_N = mask.kept(_inputs(batch.take(part), None if step_N is None else step_N[tokens_N]))
        if not torch.equal(alone_N, kept_N[tokens_N]):
            yield (
                f"of a micro-batch alone it keeps {int(alone_N.sum())} tokens, of the same in the whole batch "
                f"{int(kept_N[tokens_N].sum())}: it mixes the tokens of different episodes; what is computed over "
                "a step belongs into of_step of a subclass of PolicyMask"
            )
            return
    moved = batch.take(order)
    moved_N = mask.kept(_inputs(moved, _step_values(mask, ratio, moved)))
    if not torch.equal(moved_N, kept_N[batch.tokens_of(order)]):
        yield "it keeps other tokens when the episodes come in another order; take their bounds from inputs.lengths_E"


def _step_values(mask: PolicyMask, ratio: RatioLevel, batch: Probe) -> Tensor | None:
    return mask.of_step(batch.step_tokens(ratio)).values_N if mask.has_step_values else None


def _inputs(batch: Probe, step_N: Tensor | None) -> MaskInputs:
    new_N, old_N, sampler_N, advantages_N = (
        stream_N.clone() for stream_N in (batch.new_N, batch.old_N, batch.sampler_N, batch.advantages_N)
    )
    return MaskInputs(new_N, old_N, sampler_N, advantages_N, batch.lengths_E, step_N)


def _streams(inputs: MaskInputs) -> list[Tensor]:
    sampler_N = inputs.old_logps_N if inputs.sampler_logps_N is None else inputs.sampler_logps_N
    return [inputs.new_logps_N, inputs.old_logps_N, sampler_N, inputs.advantages_N]
