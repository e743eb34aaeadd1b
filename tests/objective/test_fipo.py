"""FIPO (2603.19835): influence, loss and gradient of fourteen tokens by hand, its options, and what is said of them."""

from typing import Any

import pytest
import torch

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.objective.segments import segment_discounted_to_go
from groupwise.objective.surrogates.fipo import Fipo
from groupwise.objective.surrogates.ppo_clip import PpoClip
from tests.objective.five_answers import ADVANTAGES, LENGTHS, NEW, OLD, close, inputs_of, token_mean

OF_7B = Fipo(influence_low=0.8, safety_ratio=3.0)
FUTURE = [0.286324, 0.139309, 0.448929, 0.05, 0.859643, -0.45, -0.15424, 0.0978572, 0.1, 0.2725, 0.35]
FUTURE += [-0.379122, 0.225714, 0.2]
GRADIENT = [-0.0663905, -0.0405502, 0, -0.0526272, 0.104837, 0, 0, 0, 0.029081, -0.0399597, 0, 0, 0.0441623, 0.0523458]
OF_32B = [1.2, 1.14948, 1.2, 1.05127, 1.2, 1, 1, 1, 1.10517, 1.2, 1.2, 1, 1.2, 1.2]


def test_golden() -> None:
    close(Fipo().influence(inputs_of(NEW)), OF_32B)
    loss, gradient_N, _ = token_mean(Fipo())
    close(loss, 0.20766)
    close(gradient_N, GRADIENT)


def test_golden_of_the_values_for_7b() -> None:
    influence = [*OF_32B[:4], 1, 0.8, 0.857067, 1, 1.10517, *OF_32B[9:11], 0.8, *OF_32B[12:]]
    close(OF_7B.influence(inputs_of(NEW)), influence)
    loss, gradient_N, _ = token_mean(OF_7B)
    close(loss, 0.177941)
    close(gradient_N, [*GRADIENT[:4], 0.0873642, *GRADIENT[5:]])


@pytest.mark.parametrize(("safety", "expected"), [("clamp", -0.0132135), ("set", 0.0010722)])
def test_golden_of_a_short_half_life(safety: Any, expected: float) -> None:
    surrogate = Fipo(half_life_tokens=2.0, influence_low=0.8, safety_ratio=3.0, dual_clip=3.0, safety=safety)
    close(token_mean(surrogate)[0], expected)


@pytest.mark.parametrize("half_life", [0.5, 2.0, 32.0])
def test_the_future_is_the_discounted_sum_to_the_end_of_the_answer(half_life: float) -> None:
    generator = torch.Generator().manual_seed(0)
    lengths_E = torch.tensor([0, 7, 1, 0, 130, 2, 64])
    values_N = torch.randn(int(lengths_E.sum()), dtype=torch.float64, generator=generator)
    expected: list[float] = []
    for part_N in values_N.split(lengths_E.tolist()):
        backwards, running = [], 0.0
        for value in reversed(part_N.tolist()):
            running = value + 2 ** (-1 / half_life) * running
            backwards.append(running)
        expected += reversed(backwards)
    actual_N = segment_discounted_to_go(values_N, lengths_E, 2 ** (-1 / half_life))
    torch.testing.assert_close(actual_N, torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=1e-13)
    assert segment_discounted_to_go(values_N[:0], lengths_E[:0], 0.5).tolist() == []


def test_tokens_beyond_the_dual_clip_are_no_future() -> None:
    wide = Fipo(influence_low=1e-9, influence_high=1e9, safety_ratio=0.0)
    close(wide.influence(inputs_of(NEW)).log(), FUTURE)
    # Without a dual clip the token whose ratio is 11 counts: for itself, and for the one before it by half a half-life.
    unbounded = wide.model_copy(update={"dual_clip": 0.0}).influence(inputs_of(NEW)).log() - torch.tensor(FUTURE)
    close(unbounded[6:9], [2.4 * 2 ** (-1 / 32), 2.4, 0.0])


def test_before_the_first_update_it_is_ppo() -> None:
    new_N = OLD.clone().requires_grad_()
    losses = [surrogate.loss(inputs_of(new_N)).loss_N for surrogate in (Fipo(), PpoClip())]
    assert torch.equal(*losses)
    close(losses[0].detach(), (-ADVANTAGES).tolist())


def test_the_influence_has_no_gradient_and_stays_within_its_answer() -> None:
    new_N = NEW.clone().requires_grad_()
    assert not Fipo().influence(inputs_of(new_N)).requires_grad
    moved_N = NEW.clone()
    moved_N[4] += 0.01
    before_N, after_N = (OF_7B.influence(inputs_of(new)) for new in (NEW, moved_N))
    changed = (before_N != after_N).nonzero().flatten().tolist()
    assert set(changed) <= set(range(4, 4 + int(LENGTHS[1])))


def findings_of(updates: int = 8, **options: Any) -> list[str]:
    tree = {"objective": {"surrogate": {"type": "fipo", **options}}, "batch": {"minibatches_per_step": updates}}
    return [f"{finding.level}: {finding.message}" for finding in contradictions(TrainConfig.model_validate(tree))]


@pytest.mark.parametrize(
    ("options", "level", "words"),
    [
        ({"influence_low": 1.1}, "error", "1 has to be within"),
        ({"influence_high": 0.9, "influence_low": 0.8}, "error", "1 has to be within"),
        ({"influence_high": 1.0}, "error", "they have to differ"),
        ({"safety": "clamp"}, "error", "safety=clamp has no effect with objective.surrogate.influence_low=1.0"),
        (
            {"safety": "clamp", "safety_ratio": 0.0, "influence_low": 0.8},
            "error",
            "safety=clamp has no effect with objective.surrogate.safety_ratio=0",
        ),
        ({"dual_clip": 0.5}, "error", "dual_clip=0.5 is not above 1"),
        ({"updates": 1}, "warning", "F is 0 and f is 1, and this is objective.surrogate=ppo_clip"),
    ],
)
def test_findings(options: dict[str, Any], level: str, words: str) -> None:
    assert findings_of() == findings_of(influence_low=0.8, safety="clamp") == []
    (found,) = findings_of(**options)
    assert found.startswith(level)
    assert words in found


def test_an_engine_that_computes_otherwise_is_warned_about() -> None:
    tree: dict[str, Any] = {
        "objective": {"surrogate": "fipo"},
        "batch": {"minibatches_per_step": 8},
        "model": {"compute_dtype": "bfloat16"},
    }
    found = [finding.message for finding in contradictions(TrainConfig.model_validate(tree))]
    assert any("adds up in F to 46.7 times as much; set objective.old_logps=trainer" in text for text in found)
    tree["objective"]["old_logps"] = "trainer"
    assert not any("adds up" in finding.message for finding in contradictions(TrainConfig.model_validate(tree)))
