"""REAL: the answers of a group as examples of two classes, told apart by how far the policy moved on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error, unused, warning
from groupwise.lazy import torch
from groupwise.objective.metric import Metric
from groupwise.objective.segments import segment_mean
from groupwise.objective.step_tokens import StepTokens, StepValues
from groupwise.objective.surrogates.surrogate import KEY, Surrogate, SurrogateInputs, SurrogateOutputs, unbounded
from groupwise.options import PositiveFloat
from groupwise.technique import Card, number

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class Real(Surrogate):
    """log(1 + Σ_right e^(-s/τ)) + log(1 + Σ_wrong e^(s/τ)) of each group, mean over groups (REAL, 2602.05630).

    s is the mean over an answer's tokens of log r. The weight of an answer, the slope in its s, is at most 1/τ and
    falls as the policy moves its way: that does for a clip, an advantage and a KL. With one update s is 0 and the
    weights are 1/(τ·(1 + n)) for n answers of the class. Slopes are those of whole groups, of all trained answers of an
    optimizer step, so that micro-batches may divide a group. The mean counts all of its groups, of one class too.
    """

    type: Literal["real"] = "real"
    needs_ratio: ClassVar[str] = "token"
    needs_reduction: ClassVar[str] = "sequence_mean_token_mean"
    bounds_ratio: ClassVar[bool] = False
    has_step_values: ClassVar[bool] = True
    needs_advantage: ClassVar[bool] = False

    temperature: PositiveFloat = 0.5
    """τ: how far s has to move for the weight of an answer to fall."""

    labels: Literal["above_mean", "binary"] = "above_mean"
    """Which answers are right: those with a total reward above the mean of their group's trained answers, the others
    wrong, and those at the mean neither; or those of reward 1, wrong those of 0, and all others neither, as in the
    authors' code. Where rewards are 0 and 1 both are the same in groups of two classes."""

    one_class: Literal["skip", "printed"] = "skip"
    """A group in which no answer is right, or none wrong: its loss is 0, as in the authors' code, or that of its one
    class, as the equation is printed. Above the mean there is never one class alone."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="REAL",
            source="2602.05630",
            what="a group's answers are classified as right or wrong by how far the policy moved on them",
            equation="-log(1 + Σ_right e^(-s_i/τ)) - log(1 + Σ_wrong e^(s_i/τ)), s_i = (1/L_i) Σ_t log r",
            values="τ 0.5, groups of 8, 4 minibatches",
            keys=(f"{KEY}.temperature", f"{KEY}.labels", f"{KEY}.one_class"),
            is_on=lambda c: isinstance(c.objective.surrogate, Real),
            cost="one forward pass before each optimizer step; none where the ratio is 1 by construction",
            test="objective/test_real.py::test_golden",
            differs="The authors' code finds the groups of a micro-batch, so that a divided group is two. ms-swift "
            "labels by A > 0, and a reward at the mean is right or wrong by rounding.",
        ),
    )

    @property
    def reads_ratios_alone(self) -> bool:
        return True

    def of_step(self, step: StepTokens) -> StepValues:
        """(N, 2): the slope of the step's loss in s of the answer, and its part of the loss, both times S answers."""
        group_E = step.group_E
        right_E, wrong_E = self.classes(step)
        groups = len(group_E.unique())
        counts_P, right_P, wrong_P = (
            torch.zeros(groups, dtype=torch.int64).index_add(0, group_E, of_E.long())
            for of_E in (torch.ones_like(right_E), right_E, wrong_E)
        )
        mixed_P = (right_P > 0) & (wrong_P > 0)
        if self.one_class == "skip":
            right_E, wrong_E = right_E & mixed_P[group_E], wrong_E & mixed_P[group_E]
        logits_E = segment_mean(step.log_ratio_N.double(), step.lengths_E) / self.temperature
        right_loss_P, right_slope_E = _class_loss(-logits_E, right_E, group_E, groups)
        wrong_loss_P, wrong_slope_E = _class_loss(logits_E, wrong_E, group_E, groups)
        slope_E = (wrong_slope_E - right_slope_E) / self.temperature
        part_E = ((right_loss_P + wrong_loss_P) / counts_P)[group_E]
        values_E = torch.stack([slope_E, part_E], -1) * (len(group_E) / max(groups, 1))
        neither = float((~(right_E | wrong_E) & mixed_P[group_E]).sum())
        metrics = {
            "policy/real_one_class_fraction": Metric(float((~mixed_P).sum()) / max(groups, 1), "mean", groups),
            "policy/real_unlabelled_fraction": Metric(neither / max(len(group_E), 1), "mean", len(group_E)),
        }
        values_N = values_E.to(step.log_ratio_N.dtype).repeat_interleave(step.lengths_E, 0)
        return StepValues(values_N, metrics)

    def classes(self, step: StepTokens) -> tuple[Tensor, Tensor]:
        """Which answers are right, and which are wrong, bool over E."""
        rewards_E, group_E = step.rewards_E.double(), step.group_E
        if self.labels == "binary":
            return rewards_E == 1, rewards_E == 0
        zeros_P = torch.zeros(len(group_E.unique()), dtype=torch.float64)
        means_P = zeros_P.index_add(0, group_E, rewards_E) / group_E.bincount()
        above_E = rewards_E - means_P[group_E]
        # Rewards that several ranks exchange are float32.
        rounding_E = 1e-6 * zeros_P.scatter_reduce(0, group_E, rewards_E.abs(), "amax")[group_E]
        return above_E > rounding_E, above_E < -rounding_E

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        slope_N, part_N = inputs.required_step_N.to(inputs.log_ratio_N.dtype).unbind(-1)
        return unbounded(slope_N * (inputs.log_ratio_N - inputs.log_ratio_N.detach()) + part_N)

    def formula(self, ratio_is_one: bool) -> str:  # noqa: ARG002 - it needs token ratios
        return "y·log r"

    def terms(self, ratio_is_one: bool) -> list[tuple[str, str]]:  # noqa: ARG002 - it needs token ratios
        which = "R above the group's mean" if self.labels == "above_mean" else "R = 1"
        other = "below" if self.labels == "above_mean" else "R = 0"
        text = (
            f"sg[(S/P)·p/{number(self.temperature)}], p = e^(-s/τ)/(1 + Σ e^(-s/τ)) over the group's right answers "
            f"({which}), -e^(s/τ)/(1 + Σ e^(s/τ)) over its wrong ones ({other})"
        )
        text += ", 0 in a group of one class" if self.one_class == "skip" else ""
        return [("y", text), ("s", f"(1/L) Σ_t log r of the answer; τ = {number(self.temperature)}; P groups")]

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """What acts through an advantage that is not there, groups without two classes, rewards without a class."""
        yield from super().findings(config)
        this = f"{KEY}=real"
        if not config.uses_advantages:
            for name, info in type(config.advantage).model_fields.items():
                remedy = "it compares the answers of a group itself"
                yield from unused(f"advantage.{name}", getattr(config.advantage, name), info.default, this, remedy)
        if config.uses_kl and config.kl.in_reward:
            text = f"kl.in_reward=true with {this}: the penalty is taken off an advantage that it has none of; set "
            yield error(("kl.in_reward", KEY), text + "kl.in_reward=false")
        if config.batch.samples_per_prompt == 1 and self.one_class == "skip":
            text = f"batch.samples_per_prompt=1 with {this}: a group of one answer has no two classes; take at least 2"
            yield error(("batch.samples_per_prompt", KEY), text)
        if self.labels == "above_mean":
            because, remedy = f"{KEY}.labels=above_mean", "no group has answers above its mean alone: set labels=binary"
            yield from unused(f"{KEY}.one_class", self.one_class, "skip", because, remedy)
        elif self.one_class == "printed" and (wanted := config.active_sampling.filter) != "none":
            text = (
                f"active_sampling.filter={wanted} with {KEY}.one_class=printed: a group of one class hardly ever "
                "passes the filter; set active_sampling.filter=none and active_sampling.refill=false"
            )
            yield warning((f"{KEY}.one_class", "active_sampling.filter"), text)
        if self.labels == "binary" and config.any_table(
            lambda table: {name: weight for name, weight in table.weights.items() if weight} != {"correctness": 1.0}
        ):
            text = (
                f"{KEY}.labels=binary with rewards other than correctness of weight 1: an answer whose total is "
                f"neither 1 nor 0 is in no class and not trained on; set {KEY}.labels=above_mean"
            )
            yield warning((f"{KEY}.labels",), text)


def _class_loss(logits_E: Tensor, member_E: Tensor, group_E: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """log(1 + Σ e^logit) over the members of each group, and its slope in each of their logits."""
    logits_E = logits_E.where(member_E, -torch.inf)
    # The 1 is e^0: no logit overflows once the largest of them is taken off.
    top_P = logits_E.new_zeros(groups).scatter_reduce(0, group_E, logits_E, "amax")
    sum_P = (-top_P).exp().index_add(0, group_E, (logits_E - top_P[group_E]).exp())
    loss_P = top_P + sum_P.log()
    return loss_P, (logits_E - loss_P[group_E]).exp()
