"""What every surrogate has: a per-token loss (a negated objective) of a ratio and an advantage."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from groupwise.findings import Finding, error, note, unused, warning
from groupwise.lazy import torch
from groupwise.objective.masks.policy_mask import PolicyMask
from groupwise.technique import Technique

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig
    from groupwise.objective.step_tokens import StepTokens, StepValues

KEY = "objective.surrogate"
GOLDEN = "objective/test_golden_loss.py::test_loss_and_gradient"


@dataclass(frozen=True)
class SurrogateInputs:
    """What a surrogate is computed from, over N but for `lengths_E`, the tokens of each episode.

    log_ratio_N is that of the objective's ratio level, with gradient, as has new_logps_N. step_N: what `of_step` gave
    each token, None for surrogates without it.
    """

    log_ratio_N: Tensor
    new_logps_N: Tensor
    old_logps_N: Tensor
    advantages_N: Tensor
    lengths_E: Tensor
    sampler_logps_N: Tensor | None = None
    step_N: Tensor | None = None

    @property
    def ratio_N(self) -> Tensor:
        """The ratio, with gradient."""
        return self.log_ratio_N.exp()

    def behaviour_logps_N(self, reference: Literal["sampler", "old"]) -> Tensor:
        """The stream that a technique compares π with. Raises ValueError where the engine's is wanted and missing."""
        if reference == "old":
            return self.old_logps_N
        if self.sampler_logps_N is None:
            raise ValueError("a surrogate that compares with the engine needs sampler_logps_N")
        return self.sampler_logps_N

    @property
    def required_step_N(self) -> Tensor:
        """step_N of a surrogate with `has_step_values`."""
        if self.step_N is None:
            raise ValueError("a surrogate that is computed from the whole optimizer step needs step_N of its of_step")
        return self.step_N

    def by_sign(self, positive: float, negative: float) -> Tensor:
        """`positive` where A > 0, else `negative`, over N, in the precision of A."""
        advantages_N = self.advantages_N
        return torch.where(advantages_N > 0, torch.full_like(advantages_N, positive), negative)


@dataclass(frozen=True)
class SurrogateOutputs:
    """Per-token loss, and where a bound took effect.

    Attributes:
        loss_N: to be weighted and summed.
        low_N: bool, the lower bound replaced the ratio.
        high_N: bool, the upper bound did. In either case the token's gradient is exactly 0, except where bounds limit
            a weight and leave the gradient (`bounds_stop_gradient`): `cispo`, `topr`, the cap of `aspo`, the clip of
            `ce_gppo`.
        measures: further numbers over N by name; their means over the trained tokens are metrics `policy/own/NAME`.
    """

    loss_N: Tensor
    low_N: Tensor
    high_N: Tensor
    measures: Mapping[str, Tensor] = field(default_factory=dict)


class Surrogate(Technique):
    """Base of the surrogates.

    needs_ratio, needs_reduction: the only ratio level and reduction that it is defined on; empty for any. bounds_ratio:
    it limits how far the ratio moves, which a ratio that is always 1 leaves without effect. bounds_stop_gradient: the
    tokens at a bound have no gradient. compares_old: it compares π with π_old itself, whatever the ratio level.
    keeps_near: something stops several optimizer steps on the same answers from moving far. has_step_values: it is
    computed from the whole optimizer step, see `of_step`. needs_advantage: a token with advantage 0 has no gradient.
    """

    type: Any
    needs_ratio: ClassVar[str] = ""
    needs_reduction: ClassVar[str] = ""
    bounds_ratio: ClassVar[bool] = True
    bounds_stop_gradient: ClassVar[bool] = True
    compares_old: ClassVar[bool] = False
    keeps_near: ClassVar[bool] = True
    has_step_values: ClassVar[bool] = False
    needs_advantage: ClassVar[bool] = True

    @property
    def compares_sampler(self) -> bool:
        """Whether π is compared with the engine's own log-probabilities, so that a mismatch counts as a change."""
        return False

    @property
    def reads_ratios_alone(self) -> bool:
        """Whether `of_step` reads no log-probability but in the ratio, which needs no pass where it is 1 anyway."""
        return False

    def of_step(self, step: StepTokens) -> StepValues:
        """What each token is given as `step_N`, for those with `has_step_values`; once, before the first gradient."""
        raise TypeError(f"{self.type} takes nothing from the whole step, got {len(step.lengths_E)} episodes")

    @abstractmethod
    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        """The loss of each token, before any weight, mask or engine correction."""

    @abstractmethod
    def formula(self, ratio_is_one: bool) -> str:
        """What is maximised for each token, as text. `ratio_is_one`: under ratio level `none`."""

    def terms(self, ratio_is_one: bool) -> list[tuple[str, str]]:  # noqa: ARG002 - of those whose symbols depend on it
        """The symbols of the formula besides r, A and π, with their meaning."""
        return []

    def widest_bound(self) -> tuple[str, float] | None:
        """The option that bounds the ratio most loosely, and its distance from 1; None without a fixed bound."""
        return None

    def without_effect_at_one(self) -> list[str]:
        """The options that change no gradient where every ratio is 1."""
        return [name for name in type(self).model_fields if name != "type"] if self.bounds_ratio else []

    def notes(self, config: TrainConfig) -> Iterator[Finding]:
        """Bounds that wait for a second update."""
        idle = self.without_effect_at_one()
        # What is in vain under any number of updates is a finding.
        if idle and config.ratio_is_one and (config.objective.ratio.type != "none" or self.compares_old):
            text = (
                f"{KEY}={self.type} with one optimizer step on each batch of answers: the policy that is scored is the "
                f"one that sampled, every ratio is 1, and {', '.join(idle)} can do nothing; for that raise "
                "batch.minibatches_per_step or batch.epochs_per_step"
            )
            keys = (*(f"{KEY}.{name}" for name in idle), "batch.minibatches_per_step", "batch.epochs_per_step")
            yield note(keys, text)

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """What holds for any surrogate: its ratio level, options without effect, nothing that keeps π near π_old."""
        level = config.objective.ratio.type
        this, ratio = f"{KEY}={self.type}", f"objective.ratio={level}"
        if level == "none" and self.bounds_ratio and not self.compares_old:
            for name, info in type(self).model_fields.items():
                if name != "type":
                    key, remedy = f"{KEY}.{name}", "set objective.ratio=token"
                    yield from unused(key, getattr(self, name), info.default, ratio, remedy)
        if self.needs_ratio and level != self.needs_ratio:
            text = f"{this} with {ratio}: it is defined on objective.ratio={self.needs_ratio} alone; set that"
            yield error(("objective.ratio", KEY), text)
        reduction = config.objective.reduction.type
        if self.needs_reduction and reduction != self.needs_reduction:
            text = (
                f"{this} with objective.reduction={reduction}: its tokens are weighted by "
                f"objective.reduction={self.needs_reduction} alone; set that"
            )
            yield error(("objective.reduction", KEY), text)
        if not self.needs_ratio and level == "none" and self.bounds_ratio and not self.compares_old:
            text = (
                f"{this} with objective.ratio=none: the ratio is always 1, so no bound ever acts and this is "
                f"{KEY}=reinforce; name that, or set objective.ratio=token"
            )
            yield warning(("objective.ratio", KEY), text)
        batch, updates, mask = config.batch, config.updates_per_step, config.off_policy_mask
        held = self.keeps_near and (level != "none" or self.compares_old)
        if updates > 1 and not (held or (isinstance(mask, PolicyMask) and mask.keeps_near)):
            text = (
                f"batch.epochs_per_step={batch.epochs_per_step} and batch.minibatches_per_step="
                f"{batch.minibatches_per_step} make {updates} optimizer steps on the same answers, and with {this} and "
                f"{ratio} nothing keeps the policy near the one that sampled them; set {KEY}=ppo_clip with "
                "objective.ratio=token, set off_policy_mask=m2po, or set both to 1"
            )
            yield warning(("batch.epochs_per_step", "batch.minibatches_per_step", KEY), text)


def bounded(inputs: SurrogateInputs, low_N: Tensor, high_N: Tensor, bound_N: Tensor) -> SurrogateOutputs:
    """-r·A, the ratio replaced by a constant where a bound takes effect, so that the gradient there is exactly 0."""
    effective_N = torch.where(low_N | high_N, bound_N, inputs.ratio_N)
    return SurrogateOutputs(-inputs.advantages_N * effective_N, low_N, high_N)


def unbounded(loss_N: Tensor) -> SurrogateOutputs:
    """A loss in which no bound takes effect anywhere."""
    nowhere_N = torch.zeros_like(loss_N, dtype=torch.bool)
    return SurrogateOutputs(loss_N, nowhere_N, nowhere_N)
