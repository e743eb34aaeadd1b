"""What holds for every surrogate, tried on a small fixed batch before anything is loaded or sampled."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupwise.lazy import torch
from groupwise.objective.own.probe import Probe, differs, parts_and_orders, probe
from groupwise.objective.surrogates.surrogate import Surrogate, SurrogateInputs, SurrogateOutputs
from groupwise.own_code import OwnCodeError

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.objective.ratios.ratio import RatioLevel

RATIOS = ("token", "sequence_geometric_mean", "gspo_token", "sequence_product", "none")


@dataclass(frozen=True)
class Tried:
    """gradient_N: of the weighted sum of the losses, by each token's log-probability; claimed_N: of the losses alone
    that claim a bound. inputs: what was given."""

    outputs: SurrogateOutputs
    gradient_N: Tensor | None
    claimed_N: Tensor | None
    inputs: SurrogateInputs


def surrogate_problems(surrogate: Surrogate, ratio: RatioLevel) -> list[str]:
    """What is wrong with a surrogate at this ratio level, each as a sentence; empty where every property holds."""
    if surrogate.needs_ratio and surrogate.needs_ratio not in RATIOS:
        close = difflib.get_close_matches(surrogate.needs_ratio, RATIOS, 1) or RATIOS
        return [
            f"needs_ratio is {surrogate.needs_ratio!r}, which is no ratio level; did you mean {' or '.join(close)}?"
        ]
    if surrogate.needs_ratio not in ("", ratio.type):
        # Refused already, and not defined here.
        return []
    try:
        return list(_problems(surrogate, ratio))
    except OwnCodeError as failure:
        return [f"on a small batch it {failure.text}"]


def _tried(surrogate: Surrogate, ratio: RatioLevel, batch: Probe, step_N: Tensor | None) -> Tried:
    new_N = batch.new_N.clone().requires_grad_()
    old_N, advantages_N, sampler_N = batch.old_N.clone(), batch.advantages_N.clone(), batch.sampler_N.clone()
    log_ratio_N = ratio.log_ratio(new_N, old_N, batch.lengths_E)
    inputs = SurrogateInputs(log_ratio_N, new_N, old_N, advantages_N, batch.lengths_E, sampler_N, step_N)
    outputs = surrogate.loss(inputs)
    if not outputs.loss_N.requires_grad:
        return Tried(outputs, None, None, inputs)
    weighted_N, at_bound_N = batch.weight_N * outputs.loss_N, outputs.low_N | outputs.high_N
    (gradient_N,) = torch.autograd.grad(weighted_N.sum(), new_N, retain_graph=True, allow_unused=True)
    (claimed_N,) = torch.autograd.grad(weighted_N[at_bound_N].sum(), new_N, allow_unused=True)
    return Tried(outputs, gradient_N, claimed_N, inputs)


def _step_values(surrogate: Surrogate, ratio: RatioLevel, batch: Probe) -> Tensor | None:
    return surrogate.of_step(batch.step_tokens(ratio)).values_N if surrogate.has_step_values else None


def _problems(surrogate: Surrogate, ratio: RatioLevel) -> Iterator[str]:
    batch = probe()
    step_N = _step_values(surrogate, ratio, batch)
    whole = _tried(surrogate, ratio, batch, step_N)
    loss_N, gradient_N = whole.outputs.loss_N.detach(), whole.gradient_N
    if gradient_N is None or not bool((gradient_N != 0).any()):
        yield (
            "its loss has no gradient towards log π: it is computed from detached values alone; use inputs.ratio_N, "
            "inputs.log_ratio_N or inputs.new_logps_N without .detach()"
        )
        return
    for dtype in (torch.float64, torch.float32):
        of_dtype = None if step_N is None else step_N.to(dtype)
        wrong = list(_numbers(_tried(surrogate, ratio, batch.to(dtype), of_dtype), batch, dtype))
        yield from wrong
        if wrong:
            return
    yield from _unchanged(whole, batch)
    yield from _zeros(surrogate, whole, gradient_N, batch)
    if not torch.equal(_tried(surrogate, ratio, batch, step_N).outputs.loss_N, whole.outputs.loss_N):
        yield "two calls with the same inputs give different losses; leave random numbers and state out"
        return
    parts, order = parts_and_orders(batch)
    for part in parts:
        tokens_N = batch.tokens_of(part)
        alone = _tried(surrogate, ratio, batch.take(part), None if step_N is None else step_N[tokens_N])
        if (text := _unlike(alone, loss_N[tokens_N], gradient_N[tokens_N], batch, tokens_N)) is not None:
            yield (
                f"{text} in a micro-batch alone than in the whole batch: it mixes the tokens of different episodes, as "
                "a mean or a normalisation over the batch does; return each token's own loss, means over a step belong "
                "into of_step of a subclass of Surrogate"
            )
            return
    tokens_N, moved = batch.tokens_of(order), batch.take(order)
    other = _tried(surrogate, ratio, moved, _step_values(surrogate, ratio, moved))
    if (text := _unlike(other, loss_N[tokens_N], gradient_N[tokens_N], batch, tokens_N)) is not None:
        yield f"{text} when the episodes come in another order; take the bounds of an episode from inputs.lengths_E"


def _numbers(tried: Tried, batch: Probe, dtype: torch.dtype) -> Iterator[str]:
    """In this precision: it is kept, and nothing is infinite or NaN."""
    loss_N = tried.outputs.loss_N
    if loss_N.dtype != dtype:
        yield f"from inputs of {dtype} it makes a loss of {loss_N.dtype}; expected the same: .to(inputs.log_ratio_N)"
    for what, values_N in (("loss", loss_N.detach()), ("gradient", tried.gradient_N)):
        wrong_N = ~values_N.isfinite() if values_N is not None else torch.zeros(0)
        if values_N is not None and bool(wrong_N.any()):
            token = int(wrong_N.nonzero()[0])
            yield (
                f"its {what} is {float(values_N[token])} in {dtype} at {batch.named(token)}; expected a finite number: "
                "bound what grows before it is multiplied, and keep 0/0 and log(0) out of the branch that "
                "torch.where does not take"
            )
            return


def _zeros(surrogate: Surrogate, whole: Tried, gradient_N: Tensor, batch: Probe) -> Iterator[str]:
    """Where it claims to have no gradient it has exactly none."""
    # Where the ratio is of the whole answer, the terms of its other tokens still move this one.
    own_N = torch.zeros_like(gradient_N) if whole.claimed_N is None else whole.claimed_N
    wrong_N = (whole.outputs.low_N | whole.outputs.high_N) & (gradient_N != 0) & (own_N != 0)
    if surrogate.bounds_stop_gradient and bool(wrong_N.any()):
        token = int(wrong_N.nonzero()[0])
        yield (
            f"it says in low_N or high_N that a bound took effect at {batch.named(token)}, and the gradient there is "
            f"{float(gradient_N[token]):.3g}, not exactly 0; replace the ratio by a constant there, correct low_N and "
            "high_N, or declare bounds_stop_gradient=False if the bound leaves the gradient"
        )
    wrong_N = (batch.advantages_N == 0) & (gradient_N != 0)
    if surrogate.needs_advantage and bool(wrong_N.any()):
        token = int(wrong_N.nonzero()[0])
        yield (
            f"at {batch.named(token)} its gradient is {float(gradient_N[token]):.3g}; expected 0, since answers "
            "without advantage are not forwarded; multiply by inputs.advantages_N, or declare needs_advantage=False"
        )


def _unchanged(whole: Tried, batch: Probe) -> Iterator[str]:
    given = (batch.old_N, batch.advantages_N, batch.sampler_N)
    seen = (whole.inputs.old_logps_N, whole.inputs.advantages_N, whole.inputs.sampler_logps_N)
    if any(after is None or not torch.equal(before, after) for before, after in zip(given, seen, strict=True)):
        yield "it changes its inputs in place; compute with methods without a trailing underscore, such as clamp"


def _unlike(tried: Tried, loss_N: Tensor, gradient_N: Tensor, batch: Probe, tokens_N: Tensor) -> str | None:
    """How loss or gradient differ from those that were expected."""
    own_N = tried.gradient_N if tried.gradient_N is not None else torch.zeros_like(loss_N)
    for what, found_N, expected_N in (("loss", tried.outputs.loss_N.detach(), loss_N), ("gradient", own_N, gradient_N)):
        if (place := differs(found_N, expected_N)) is not None:
            numbers = f"{float(found_N[place]):.6g} instead of {float(expected_N[place]):.6g}"
            return f"its {what} at {batch.named(int(tokens_N[place]))} is another ({numbers})"
    return None
