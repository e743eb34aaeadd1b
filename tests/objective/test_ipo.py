"""IPO of prime-rl: golden values by hand, ties, ratios that overflow, and what it warns of."""

import math

import pytest
import torch
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.objective.loss import Objective
from groupwise.objective.surrogates.ipo import Ipo
from groupwise.objective.surrogates.surrogate import SurrogateInputs, SurrogateOutputs
from tests.support.nine_tokens import ENGINE, check

GRADIENT = [-0.127171, 0.0, -0.104171, -0.1865, 0.0, 0.0986865, -0.0600323, -0.555564, 0.0]


@pytest.mark.parametrize(
    ("surrogate", "loss", "changed"),
    [
        (Ipo(), -0.934751, {}),
        # The rare token, whose ratio is 10, makes up more than half of the loss; capped it weighs 2 · 0.5 / 9.
        (Ipo(cap=2.0), -0.490298, {7: -0.111111}),
        (Ipo(tv=0.1), -0.252016, {0: 0.0, 7: 0.0}),
    ],
    ids=["0.3", "cap", "0.1"],
)
def test_golden(surrogate: Ipo, loss: float, changed: dict[int, float]) -> None:
    gradient_N = [changed.get(index, value) for index, value in enumerate(GRADIENT)]
    check(Objective(surrogate=surrogate), ENGINE, loss, gradient_N)


def of(surrogate: Ipo, new_N: Tensor, engine_N: Tensor, advantages_N: Tensor) -> tuple[SurrogateOutputs, Tensor]:
    new_N = new_N.double().requires_grad_()
    lengths_E = torch.tensor([len(new_N)])
    inputs = SurrogateInputs(new_N - engine_N, new_N, engine_N, advantages_N.double(), lengths_E, engine_N)
    outputs = surrogate.loss(inputs)
    (gradient_N,) = torch.autograd.grad(outputs.loss_N.sum(), new_N)
    return outputs, gradient_N


def test_the_sign_does_not_matter_and_a_tie_is_kept() -> None:
    half, quarter = math.log(0.5), math.log(0.25)
    new_N = torch.tensor([half, half, quarter, quarter]).double()
    engine_N = torch.tensor([quarter, quarter, half, half]).double()
    advantages_N = torch.tensor([1.0, -1.0, 1.0, -1.0])
    for tv, kept in ((0.25, True), (0.249, False)):
        outputs, gradient_N = of(Ipo(tv=tv), new_N, engine_N, advantages_N)
        assert (gradient_N != 0).tolist() == [kept] * 4
        assert outputs.high_N.tolist() == [not kept, not kept, False, False]
        assert outputs.low_N.tolist() == [False, False, not kept, not kept]


def test_a_dropped_token_is_never_exponentiated() -> None:
    # exp(800) is infinite in float64, and 0 times it would be NaN in value and gradient.
    outputs, gradient_N = of(Ipo(), torch.tensor([0.0, -0.1]), torch.tensor([-800.0, -0.1]), torch.tensor([1.0, 1.0]))
    assert outputs.loss_N.tolist() == [0.0, -1.0]
    assert gradient_N.tolist() == [0.0, -1.0]


def test_no_advantage_no_gradient_and_no_clip() -> None:
    outputs, gradient_N = of(Ipo(), torch.tensor([-0.1, -3.0]), torch.tensor([-3.0, -3.0]), torch.zeros(2))
    assert (outputs.loss_N.tolist(), gradient_N.tolist()) == ([0.0, 0.0], [0.0, 0.0])


def test_it_needs_the_engine() -> None:
    new_N = torch.zeros(1)
    with pytest.raises(ValueError, match="needs sampler_logps_N"):
        Ipo().loss(SurrogateInputs(new_N, new_N, new_N, new_N, torch.tensor([1])))


def findings(**sections: object) -> list[str]:
    config = TrainConfig.model_validate(sections)
    return [" ".join(finding.keys) for finding in contradictions(config) if "surrogate=ipo" in finding.message]


def test_findings() -> None:
    several = {"minibatches_per_step": 2}
    assert findings(objective={"surrogate": "ipo"}, batch=several) == []
    by_trainer = {"surrogate": "ipo", "old_logps": "trainer"}
    assert findings(objective=by_trainer, batch=several) == ["objective.old_logps objective.surrogate"]
    assert findings(objective=by_trainer, batch=several, engine_correction="tis") == []
    without = {"ratio": "none", "surrogate": {"type": "ipo", "cap": 5.0}}
    found = contradictions(TrainConfig.model_validate({"objective": without}))
    messages = [finding.message for finding in found if finding.level == "error"]
    assert len(messages) == 1
    assert "objective.surrogate.cap=5.0 has no effect with objective.ratio=none" in messages[0]
    assert findings(objective={"ratio": "none", "surrogate": "ipo"}, batch=several) == []


@pytest.mark.parametrize(("cap", "refused"), [(0.0, False), (1.0, True), (1.5, False)])
def test_a_cap_that_is_not_above_1_is_refused(cap: float, refused: bool) -> None:
    config = TrainConfig.model_validate({"objective": {"surrogate": {"type": "ipo", "cap": cap}}})
    assert ["cap=1.0 is not above 1" in finding.message for finding in contradictions(config)] == [True] * refused


def test_one_update_leaves_it_idle_unless_the_engine_is_another() -> None:
    def idle(compute_dtype: str) -> bool:
        tree = {"objective": {"surrogate": "ipo", "old_logps": "trainer"}, "model": {"compute_dtype": compute_dtype}}
        config = TrainConfig.model_validate(tree)
        return any("can do nothing" in note.message for note in config.objective.surrogate.notes(config))

    assert (idle("float32"), idle("bfloat16")) == (True, False)


def test_a_bfloat16_engine_that_it_compares_with_is_not_warned_of() -> None:
    def warned(surrogate: str) -> bool:
        tree = {"objective": {"surrogate": surrogate}, "model": {"compute_dtype": "bfloat16"}}
        found = contradictions(TrainConfig.model_validate(tree))
        return any("takes for a change of the policy" in finding.message for finding in found)

    assert (warned("ipo"), warned("dppo")) == (False, True)
