"""The checks between options: what contradicts itself, what would do nothing, and what is known to be unsound."""

from collections.abc import Callable, Iterator

from groupwise.config import SftConfig, TrainConfig
from groupwise.config.checks import data, grading, objective, payment, penalties, rewards, schedule
from groupwise.findings import Finding

__all__ = ["Finding", "contradictions"]

# In the order of the sections.
CHECKS: tuple[Callable[[TrainConfig], Iterator[Finding]], ...] = (
    data.problems,
    data.sampling,
    data.batch,
    data.active_sampling,
    rewards.rewards,
    grading.domains,
    grading.graders,
    grading.workers,
    grading.sandbox,
    payment.advantage,
    objective.ratio_and_surrogate,
    objective.sequence_ratio,
    objective.staleness,
    objective.reduction,
    objective.old_logps,
    penalties.engine_correction,
    penalties.off_policy_mask,
    penalties.kl,
    penalties.kl_estimate,
    penalties.entropy,
    penalties.covariance,
    schedule.optimizer,
)


def contradictions(config: TrainConfig | SftConfig) -> list[Finding]:
    """All findings at once, in the order of the sections."""
    if isinstance(config, SftConfig):
        return list(schedule.supervised(config))
    return [finding for check in CHECKS for finding in check(config)]
