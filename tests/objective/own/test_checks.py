"""The checks pass what is right, every technique of ours among it, and say what is wrong with what is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from groupwise.objective.advantages import EstimatorOption
from groupwise.objective.advantages.own import ROOM as ESTIMATORS
from groupwise.objective.masks.off_policy import NoOffPolicyMask, SequenceMask
from groupwise.objective.masks.own import ROOM as MASKS
from groupwise.objective.own.bind import technique_at
from groupwise.objective.own.estimator_checks import GROUPS, estimator_problems
from groupwise.objective.own.mask_checks import mask_problems
from groupwise.objective.own.probe import ADVANTAGES, EPISODES, parts_and_orders, probe
from groupwise.objective.own.surrogate_checks import surrogate_problems
from groupwise.objective.ratios import RatioOption
from groupwise.objective.ratios.ratio import RatioLevel
from groupwise.objective.ratios.token import TokenRatio
from groupwise.objective.surrogates import SurrogateOption
from groupwise.objective.surrogates.cispo import Cispo
from groupwise.objective.surrogates.own import ROOM as SURROGATES
from groupwise.objective.surrogates.ppo_clip import PpoClip
from groupwise.objective.surrogates.surrogate import Surrogate
from groupwise.own_code import LoadError
from tests.objective.fixture import techniques

RATIOS: list[RatioLevel] = techniques(RatioOption)
HEAD = """
import torch
import groupwise
from groupwise import MaskInputs, Surrogate, SurrogateOutputs
from groupwise.objective.step_tokens import StepValues
from groupwise.objective.surrogates.surrogate import unbounded
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], str]:
    """The path of code with NAME `mine`."""

    def write(code: str) -> str:
        file = tmp_path / "mine.py"
        file.write_text(HEAD + code, encoding="utf-8")
        return f"{file}:mine"

    return write


def test_the_batch_has_what_it_claims() -> None:
    batch = probe()
    moved_N = batch.new_N - batch.old_N
    assert float(moved_N.max()) == pytest.approx(20)
    assert float(moved_N.min()) == pytest.approx(-20)
    assert bool((batch.new_N < 0).all() & (batch.old_N < 0).all())
    assert set(batch.advantages_N.tolist()) == set(ADVANTAGES) == {2.0, 0.5, 0.0, -0.5, -2.0}
    assert int((batch.lengths_E == 0).sum()) == len(ADVANTAGES)
    parts, order = parts_and_orders(batch)
    assert [episode for part in parts for episode in part] == sorted(order) == list(range(len(batch.lengths_E)))
    assert order != sorted(order)
    part = batch.take([6, 0])
    assert part.lengths_E.tolist() == [len(EPISODES[0])] * 2
    assert torch.equal(part.new_N, batch.new_N[batch.tokens_of([6, 0])])


@pytest.mark.parametrize("ratio", RATIOS, ids=[ratio.type for ratio in RATIOS])
@pytest.mark.parametrize("surrogate", techniques(SurrogateOption), ids=lambda one: one.type)
def test_every_surrogate_of_ours_passes(surrogate: Surrogate, ratio: RatioLevel) -> None:
    assert surrogate_problems(surrogate, ratio) == []


@pytest.mark.parametrize("samples", [2, 3, 8])
@pytest.mark.parametrize("estimator", techniques(EstimatorOption), ids=lambda one: one.type)
def test_every_estimator_of_ours_passes(estimator: Any, samples: int) -> None:
    assert estimator_problems(estimator, max(samples, estimator.least_graded(samples))) == []


def test_every_mask_of_ours_passes() -> None:
    for reference in ("sampler", "old"):
        for threshold in (0.01, 1.0):
            assert mask_problems(SequenceMask(reference=reference, threshold_nats=threshold), TokenRatio()) == []
    assert NoOffPolicyMask().type == "none"


class Wrong(Cispo):
    """It says that its cap stops the gradient."""

    bounds_stop_gradient = True


def test_a_false_claim_about_one_of_ours_is_found() -> None:
    (text,) = surrogate_problems(Wrong(cap=1.5), TokenRatio())
    assert "bound took effect at log(π/π_old) = 0.7 and A = 2" in text


LOSS = "def mine(inputs):\n    x = -inputs.ratio_N * inputs.advantages_N\n"
SURROGATE_FAULTS = {
    "def mine(inputs): return (-inputs.ratio_N * inputs.advantages_N).mean()": "returned loss_N of shape ();",
    "def mine(inputs): return None": "returned NoneType; expected a tensor of losses over N",
    "def mine(inputs): return inputs.logps_N": "AttributeError: 'SurrogateInputs' object has no attribute 'logps_N' (",
    "def mine(inputs): return -inputs.ratio_N.detach() * inputs.advantages_N": "its loss has no gradient",
    "def mine(inputs): return (-inputs.ratio_N * inputs.advantages_N).double()": "makes a loss of torch.float64",
    "def mine(inputs): return -inputs.ratio_N**5 * inputs.advantages_N": "its loss is -inf in torch.float32 at",
    # Finite, and its gradient is 0 · ∞.
    "def mine(inputs):\n    x = inputs.log_ratio_N\n    return -torch.where(x > 0, x.clamp(min=0).sqrt(), x) * "
    "inputs.advantages_N": "its gradient is nan in torch.float64 at log(π/π_old) =",
    "def mine(inputs): return -inputs.ratio_N": "A = 0 its gradient is",
    "def mine(inputs): return -inputs.ratio_N * inputs.advantages_N.clamp_(-1, 1)": "changes its inputs in place",
    "def mine(inputs): return -inputs.ratio_N * inputs.advantages_N * torch.rand(())": "give different losses",
    f"{LOSS}    return x - x.mean()": "in a micro-batch alone than in the whole batch",
    f"{LOSS}    return x * torch.arange(1, len(x) + 1).to(x)": "in a micro-batch alone",
    "def mine(inputs):\n    r = inputs.ratio_N\n    return SurrogateOutputs(-r.clamp(max=2) * inputs.advantages_N, "
    "r < 0, r > 1.5)": "at log(π/π_old) = 0.45 and A = 2, and the gradient there is -1.",
    f"{LOSS}    return SurrogateOutputs(x, x, x)": "low_N of torch.float64; expected torch.bool",
    f"{LOSS}    return SurrogateOutputs(x, x < 0, x < 0, {{'length': x.sum()}})": "length of shape ()",
}


@pytest.mark.parametrize(("code", "words"), SURROGATE_FAULTS.items(), ids=range(len(SURROGATE_FAULTS)))
def test_what_is_wrong_with_a_surrogate(code: str, words: str, written: Callable[[str], str]) -> None:
    surrogate: Any = technique_at(written(code), SURROGATES)()
    (text,) = surrogate_problems(surrogate, TokenRatio())
    assert words in text


OF_STEP = """
class mine(Surrogate):
    has_step_values = True

    def of_step(self, step):
        return StepValues(STEP)

    def loss(self, inputs):
        return unbounded(-inputs.ratio_N * inputs.advantages_N * inputs.step_N)

    def formula(self, ratio_is_one):
        return "r·A·s"
"""


@pytest.mark.parametrize(
    ("step", "problems"),
    [
        ("torch.full_like(step.new_logps_N, float(step.advantages_N.abs().mean()))", 0),
        # The first token of the step is another when the episodes come in another order.
        ("torch.full_like(step.new_logps_N, float(step.new_logps_N[0]))", 1),
    ],
)
def test_what_a_class_computes_from_the_whole_step(step: str, problems: int, written: Callable[[str], str]) -> None:
    surrogate: Any = technique_at(written(OF_STEP.replace("STEP", step)), SURROGATES)()
    found = surrogate_problems(surrogate, TokenRatio())
    assert len(found) == problems
    assert all("when the episodes come in another order" in text for text in found)


def test_a_surrogate_is_checked_at_the_ratio_level_that_it_is_used_with(written: Callable[[str], str]) -> None:
    declared = "@groupwise.surrogate(formula='r·A', needs_ratio='RATIO')\ndef mine(inputs): return None"
    surrogate: Any = technique_at(written(declared.replace("RATIO", "sequence_product")), SURROGATES)()
    assert surrogate_problems(surrogate, TokenRatio()) == []
    surrogate = technique_at(written(declared.replace("RATIO", "tokens")), SURROGATES)()
    assert surrogate_problems(surrogate, TokenRatio()) == [
        "needs_ratio is 'tokens', which is no ratio level; did you mean token?"
    ]


CENTRED = "(rewards_PG - rewards_PG.mean(-1, keepdim=True))"
ESTIMATOR_FAULTS = {
    "def mine(rewards_PG): return rewards_PG.mean(-1)": "returned advantages of shape (5,) and torch.float64",
    f"def mine(rewards_PG): return {CENTRED}.float()": "returned advantages of shape (5, 2) and torch.float32",
    "def mine(rewards_PG): return 1.0": "returned float; expected a tensor",
    f"def mine(rewards_PG): return {CENTRED} / rewards_PG.std(-1, keepdim=True)": "add an epsilon",
    "def mine(rewards_PG): return rewards_PG": "for 2 equal rewards of 0.3 its advantages are [0.3, 0.3]; expected 0",
    "def mine(rewards_PG): return rewards_PG - rewards_PG.mean()": "when other groups are left out",
    f"def mine(rewards_PG): return {CENTRED} / (rewards_PG.std() + 1e-4)": "when other groups are left out",
    f"def mine(rewards_PG): return {CENTRED}.cumsum(-1)": "the samples of a group in another order",
    "def mine(rewards_PG): return rewards_PG.sub_(rewards_PG.mean(-1, keepdim=True))": "changes the rewards in place",
    f"def mine(rewards_PG): return {CENTRED} * torch.rand(())": "give different advantages",
    f"def mine(rewards_PG): return {CENTRED}[:, :3] + 0": "returned advantages of shape (5, 3)",
}


@pytest.mark.parametrize(("code", "words"), ESTIMATOR_FAULTS.items(), ids=range(len(ESTIMATOR_FAULTS)))
def test_what_is_wrong_with_an_estimator(code: str, words: str, written: Callable[[str], str]) -> None:
    estimator: Any = technique_at(written(code), ESTIMATORS)()
    assert words in estimator_problems(estimator, 8)[0]


def test_right_estimators_pass(written: Callable[[str], str]) -> None:
    for code in (
        f"def mine(rewards_PG): return {CENTRED}",
        f"def mine(rewards_PG, moments): return {CENTRED} / (moments.std(1) + 1e-4)",
        "@groupwise.advantage(formula='R', needs_group=False)\ndef mine(rewards_PG): return rewards_PG",
    ):
        estimator: Any = technique_at(written(code), ESTIMATORS)()
        assert estimator_problems(estimator, 8) == []
    assert len({tuple(row) for row in GROUPS}) == len(GROUPS)


MASK_FAULTS = {
    "def mine(inputs): return inputs.advantages_N": "of torch.float64; expected torch.bool",
    "def mine(inputs): return bool((inputs.advantages_N > 0).all())": "returned bool; expected a tensor",
    "def mine(inputs): return (inputs.advantages_N > 0).any()": "returned shape () of torch.bool",
    "def mine(inputs): return inputs.old_logps_N > inputs.old_logps_N.mean()": "of a micro-batch alone it keeps",
    "def mine(inputs): return torch.rand_like(inputs.old_logps_N) > 0.5": "keep different tokens",
    "def mine(inputs): return inputs.advantages_N.neg_() > 0": "changes its inputs in place",
}


@pytest.mark.parametrize(("code", "words"), MASK_FAULTS.items(), ids=range(len(MASK_FAULTS)))
def test_what_is_wrong_with_a_mask(code: str, words: str, written: Callable[[str], str]) -> None:
    mask: Any = technique_at(written(code), MASKS)()
    assert words in mask_problems(mask, TokenRatio())[0]


# Loading

LOAD_FAULTS = {
    "mine = 3": "is not a function but int",
    "class mine: pass": "is a class that is no Surrogate",
    "class mine(Surrogate):\n    def loss(self, inputs): return None": "has no formula, which every Surrogate defines",
    "def mine(): pass": "takes no positional argument; expected def NAME(inputs, *, OPTION=DEFAULT, ...)",
    "def mine(inputs, **options): pass": "takes **options",
    "def mine(inputs, caps=(1, 2)): pass": "caps of",
    "def mine(inputs, cap: 'Nothing' = 1): pass": "the type 'Nothing' of cap in",
    "def mine(inputs, path='x'): pass": "has an option path, a name that its place in a configuration has taken",
    "@groupwise.mask(formula='x')\ndef mine(inputs): pass": "is declared as mask; objective.surrogate takes surrogates",
    "@groupwise.surrogate(formula='min(r, {cup})')\ndef mine(inputs, cap=1): pass": "no option of it; did you mean ca",
    "raise SystemExit(1)": "cannot be imported: SystemExit: 1",
    "import nothing_of_this_name": "ModuleNotFoundError",
    "def min(inputs): pass": "has no 'mine'; did you mean 'min'?",
}


@pytest.mark.parametrize(("code", "words"), LOAD_FAULTS.items(), ids=range(len(LOAD_FAULTS)))
def test_what_cannot_be_loaded(code: str, words: str, written: Callable[[str], str]) -> None:
    with pytest.raises(LoadError) as caught:
        technique_at(written(code), SURROGATES)
    assert words in str(caught.value)


def test_a_signature_declares_options(written: Callable[[str], str]) -> None:
    code = """
from typing import Annotated, Literal
from pydantic import Field

@groupwise.surrogate(formula="min(r, {cap})·A, {side}, {times}")
def mine(inputs, cap: Annotated[float, Field(gt=0)] = 5, *, side: Literal["low", "high"] = "low", times=2, on=True):
    '''A bound on one side.

    More of it.'''
    return -inputs.ratio_N * inputs.advantages_N
"""
    kind: Any = technique_at(written(code), SURROGATES)
    again: Any = technique_at(written(code), SURROGATES)
    assert again is kind
    assert kind().formula(False) == "min(r, 5)·A, low, 2"
    assert kind(cap=1, times=0.5, side="high").formula(True) == "min(r, 1)·A, high, 0.5"
    assert [card.what for card in kind.cards] == ["A bound on one side"]
    assert kind().model_dump()["options"] == {"cap": 5, "side": "low", "times": 2, "on": True}
    for wrong in ({"cap": 0}, {"cap": "5"}, {"side": "both"}, {"times": "2"}, {"on": 1}, {"cop": 1}):
        with pytest.raises(ValidationError):
            kind(**wrong)


def test_changed_code_is_another_technique(written: Callable[[str], str]) -> None:
    code = "def mine(inputs, cap=5): return -inputs.ratio_N * inputs.advantages_N"
    first = technique_at(written(code), SURROGATES)
    second = technique_at(written(code.replace("5", "6")), SURROGATES)
    assert first is not second
    assert len({kind.origin.sha256 for kind in (first, second) if kind.origin}) == 2
    assert [kind.model_fields["cap"].default for kind in (first, second)] == [5, 6]


def test_a_class_keeps_what_it_is(written: Callable[[str], str]) -> None:
    code = """
from groupwise.objective.surrogates.ppo_clip import PpoClip

class mine(PpoClip):
    '''PPO's clip, by another name.'''
"""
    kind: Any = technique_at(written(code), SURROGATES)
    made = kind(clip_high=0.3)
    assert isinstance(made, PpoClip)
    assert made.widest_bound() == ("objective.surrogate.clip_high", 0.3)
    assert made.model_dump()["type"] == "function"
    assert made.model_dump()["options"]["clip_high"] == 0.3
    assert surrogate_problems(made, TokenRatio()) == []
