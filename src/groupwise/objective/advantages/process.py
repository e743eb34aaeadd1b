"""Process supervision: the scores of an answer's spans as advantages of its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error, shown, unused, warning
from groupwise.lazy import torch
from groupwise.objective.advantages.beside_tokens import beside_token_advantages
from groupwise.objective.advantages.estimator import Ddof, has_signal
from groupwise.objective.advantages.group import Group
from groupwise.options import PositiveFloat
from groupwise.technique import Card, Section, number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig

KEY = "advantage.process"


class ProcessAdvantage(Section):
    """Scores of spans, normalised over all spans of the group's answers, and for each token summed over those that end
    at it or later (DeepSeekMath, 2402.03300 §4.1.3). Times the weight of its function it adds to the advantage of the
    answer."""

    scale: Literal["group_std", "none"] = "group_std"
    """The standard deviation of all spans of the group, or nothing, where scores are only centred."""

    std_ddof: Ddof = 1
    """1 divides the squares by S-1 (Bessel), 0 by S, the spans of the group. The paper does not say which."""

    std_epsilon: PositiveFloat = 1e-4
    """Added to the standard deviation."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="process supervision",
            source="DeepSeekMath 2402.03300 §4.1.3",
            what="a function scores spans of an answer, and a token gets the normalised scores that are still to come",
            equation="A_t = Σ_{spans j that end at t or later} (r_j - mean(r)) / std(r), over all spans of the group",
            values="neither divisor nor ε stated; the scores are of a trained reward model",
            keys=(
                "rewards.functions.NAME.returns",
                "rewards.functions.NAME.weight",
                f"{KEY}.scale",
                f"{KEY}.std_ddof",
                f"{KEY}.std_epsilon",
            ),
            is_on=lambda c: bool(c.span_key),
            test="objective/test_process.py::test_golden",
            differs="The paper has it in place of the advantage of the answer: set rewards.correctness.weight=0 for "
            "that. Here it is added to it. A sum over the spans to come grows with their number: of two answers whose "
            "spans are equally good the one with more of them moves more.",
        ),
    )

    def of(self, scores_S: Tensor, last_S: Tensor, answer_S: Tensor, lengths_G: Tensor) -> Tensor:
        """Advantages over the N tokens of one group's answers, float64.

        Exactly 0 where fewer than two spans, or spans of one score alone, leave nothing to compare, and behind the last
        span of an answer.

        Args:
            scores_S: of all spans of the group. last_S: index of the last token of each in its answer. answer_S: the
                answer that it is of, from 0. lengths_G: tokens of each answer.
        """
        lengths = lengths_G.tolist()
        credit_N = torch.zeros(sum(lengths), dtype=torch.float64)
        starts_G = lengths_G.cumsum(0) - lengths_G
        credit_N.index_add_(0, starts_G[answer_S] + last_S, self.normalised(scores_S))
        return torch.cat([credit_N[:0], *(part_T.flip(0).cumsum(0).flip(0) for part_T in credit_N.split(lengths))])

    def normalised(self, scores_S: Tensor) -> Tensor:
        """The scores less their mean, over their deviation, float64. Raises ValueError for one that is not finite."""
        if len(scores_S) < 2:
            return torch.zeros_like(scores_S, dtype=torch.float64)
        within = Group(scale=self.scale, std_ddof=self.std_ddof, std_epsilon=self.std_epsilon)
        return within.of(scores_S.unsqueeze(0)).squeeze(0)

    @staticmethod
    def signal(scores_S: Tensor) -> bool:
        """Whether these spans make an advantage that is not 0."""
        return len(scores_S) > 1 and bool(has_signal(scores_S))

    def formula(self) -> str:
        """What P is, in the scores s of spans."""
        divided = ""
        if self.scale == "group_std":
            divisor = "S-1" if self.std_ddof == 1 else "S"
            divided = f" / (std(s) + {number(self.std_epsilon)}), squares over {divisor}"
        centred = f"(s - mean(s)){divided}" if divided else "s - mean(s)"
        over = "mean and std" if divided else "mean"
        return f"Σ over the spans that end at the token or later of {centred}; {over} over all S spans of the group"

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """Estimators that it cannot be added to, what takes an advantage to be of a whole answer, unused options."""
        if not (key := config.span_key):
            for stated, value, default in map(self._stated, ("scale", "std_ddof", "std_epsilon")):
                if value != default:
                    text = (
                        f"{stated}={shown(value)} has no effect: no function in rewards.functions scores spans; name "
                        f"one that returns character_spans or token_spans, with a weight, or set {stated} back to its "
                        f"default, {shown(default)}"
                    )
                    yield error((stated, "rewards.functions"), text)
            return
        if self.scale == "none":
            for name in ("std_ddof", "std_epsilon"):
                yield from unused(*self._stated(name), f"{KEY}.scale=none", f"set {KEY}.scale=group_std")
        estimator = config.advantage.estimator
        if reason := estimator.without_spans():
            text = (
                f"{key} with advantage.estimator={estimator.type}: {reason}; take advantage.estimator=group with a "
                "baseline, opo, max_rl or a function of your own, or set the weight of the function to 0, which then "
                "only measures"
            )
            yield error(("advantage.estimator", key.partition("=")[0]), text)
        if not config.uses_advantages:
            text = (
                f"{key} has no effect with objective.surrogate={config.objective.surrogate.type}, which reads rewards "
                "and no advantages; take another surrogate, or set the weight of the function to 0"
            )
            yield error(("objective.surrogate", key.partition("=")[0]), text)
        if config.active_sampling.filter == "correctness":
            text = (
                f"active_sampling.filter=correctness with {key}: groups in which all answers are right, or all wrong, "
                "are left out, although their spans may differ; set active_sampling.filter=total"
            )
            yield warning(("active_sampling.filter", key.partition("=")[0]), text)
        yield from beside_token_advantages(config, key, "the spans tell apart")

    def _stated(self, name: str) -> tuple[str, object, object]:
        return f"{KEY}.{name}", getattr(self, name), type(self).model_fields[name].default
