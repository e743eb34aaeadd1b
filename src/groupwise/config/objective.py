"""Options of the objective: advantages, the policy loss, engine correction, masks and entropy."""

from typing import ClassVar, Literal

from groupwise.objective.advantages import EstimatorOption
from groupwise.objective.advantages.group import Group
from groupwise.objective.advantages.process import ProcessAdvantage
from groupwise.objective.entropy import BonusOption, CovarianceOption, TokensOption
from groupwise.objective.entropy.bonus import NoBonus
from groupwise.objective.entropy.covariance import NoCovariance
from groupwise.objective.entropy.top_entropy import AllTokens
from groupwise.objective.ratios import RatioOption
from groupwise.objective.ratios.token import TokenRatio
from groupwise.objective.reductions import ReductionOption
from groupwise.objective.reductions.token_mean import TokenMean
from groupwise.objective.surrogates import SurrogateOption
from groupwise.objective.surrogates.ppo_clip import PpoClip
from groupwise.options import NonNegativeFloat, Options
from groupwise.technique import Card, Section


class AdvantageOptions(Section):
    """From the rewards of a group to the advantage of each answer."""

    estimator: EstimatorOption = Group()
    """How rewards become advantages."""

    process: ProcessAdvantage = ProcessAdvantage()

    clip: NonNegativeFloat = 0.0
    """Advantages are limited to ±clip; 0 for no limit."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="advantage clip",
            source="in use (NeMo-RL)",
            what="advantages are limited, for when a tiny deviation has blown them up",
            equation="clamp(A, -c, c)",
            values="5",
            keys=("advantage.clip",),
            is_on=lambda c: c.advantage.clip > 0,
            test="objective/test_advantage.py::test_clip_advantages",
        ),
    )


class ObjectiveOptions(Section):
    """The policy loss, as independent axes."""

    ratio: RatioOption = TokenRatio()
    """π_new/π_old of the token (GRPO), of the answer as its geometric mean (GSPO), the same with the token's own
    gradient (GSPO-token), of the answer as the product, or 1 (REINFORCE)."""

    surrogate: SurrogateOption = PpoClip()
    """What is made of ratio and advantage."""

    reduction: ReductionOption = TokenMean()
    """How tokens are weighted."""

    mask_truncated: bool = False
    """Leave truncated answers out of numerator and denominator; they still count in their group's baseline."""

    old_logps: Literal["sampler", "trainer"] = "sampler"
    """Source of the old log-probabilities: the engine that sampled, or a forward pass of the trainer."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="overlong filtering",
            source="DAPO 2503.14476",
            what="truncated answers are not trained on, and still count in the baseline of their group",
            equation="weight 0 for truncated answers, in numerator and denominator",
            keys=("objective.mask_truncated",),
            is_on=lambda c: c.objective.mask_truncated,
            test="training/test_collect.py::test_truncated_answers_are_left_out_on_request",
            differs="Some leave the masked tokens in the denominator.",
        ),
    )


class EntropyOptions(Options):
    """What is done for the entropy of the policy."""

    bonus: BonusOption = NoBonus()
    """A reward for entropy."""

    tokens: TokensOption = AllTokens()
    """Which tokens the policy term acts on."""

    covariance: CovarianceOption = NoCovariance()
    """What happens to the tokens with the highest covariance of log-probability and advantage: their policy gradient is
    dropped for some (Clip-Cov), or they are penalised for moving (KL-Cov)."""
