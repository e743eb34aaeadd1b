"""The worked example is the built-in, to the last bit."""

from typing import Any

import pytest
import torch

from groupwise.objective.loss import Objective
from groupwise.objective.own.bind import technique_at
from groupwise.objective.own.probe import probe
from groupwise.objective.ratios import RatioOption
from groupwise.objective.ratios.ratio import RatioLevel
from groupwise.objective.reductions.token_mean import TokenMean
from groupwise.objective.surrogates.cispo import Cispo
from groupwise.objective.surrogates.own import ROOM
from groupwise.objective.surrogates.surrogate import SurrogateInputs
from tests.objective.fixture import inputs, loss_and_gradient, techniques

PATH = "examples/own_cispo.py:own_cispo"
OWN: Any = technique_at(PATH, ROOM)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ratio", techniques(RatioOption), ids=lambda one: one.type)
def test_loss_and_gradient(ratio: RatioLevel, dtype: torch.dtype) -> None:
    for cap in (1.1, 5.0):
        results = []
        for surrogate in (Cispo(cap=cap), OWN(cap=cap)):
            batch = probe().to(dtype)
            new_N = batch.new_N.requires_grad_()
            log_ratio_N = ratio.log_ratio(new_N, batch.old_N, batch.lengths_E)
            given = SurrogateInputs(log_ratio_N, new_N, batch.old_N, batch.advantages_N, batch.lengths_E)
            outputs = surrogate.loss(given)
            (gradient_N,) = torch.autograd.grad((batch.weight_N * outputs.loss_N).sum(), new_N)
            results.append((outputs.loss_N, gradient_N, outputs.low_N, outputs.high_N))
        assert all(torch.equal(ours, own) for ours, own in zip(*results, strict=True))
        assert bool((results[0][1] != 0).any())


def test_the_whole_loss_and_its_metrics() -> None:
    ours, own = (
        loss_and_gradient(Objective(surrogate=surrogate), inputs(TokenMean()))
        for surrogate in (Cispo(cap=1.2), OWN(cap=1.2))
    )
    assert torch.equal(ours[0].loss, own[0].loss)
    assert torch.equal(ours[1], own[1])
    values = {name: float(metric.value) for name, metric in own[0].metrics.items()}
    assert {name: float(metric.value) for name, metric in ours[0].metrics.items()} == {
        name: value for name, value in values.items() if name != "policy/own/weight"
    }
    assert values["policy/clip_fraction_high_positive"] > 0
    ratio_N = (inputs(TokenMean()).new_logps_N - inputs(TokenMean()).old_logps_N).detach().exp()
    assert values["policy/own/weight"] == pytest.approx(float(ratio_N.clamp(max=1.2).mean()), rel=1e-12)


def test_what_it_says_of_itself() -> None:
    own, ours = OWN(cap=3.0), Cispo(cap=3.0)
    assert own.formula(False) == ours.formula(False) == "sg[min(r, 3)]·A·log π"
    for claim in ("bounds_ratio", "keeps_near", "bounds_stop_gradient", "compares_old", "needs_ratio"):
        assert getattr(own, claim) == getattr(ours, claim)
