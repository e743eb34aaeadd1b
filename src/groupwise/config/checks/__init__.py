"""The checks between options: what contradicts itself, what would do nothing, and what is known to be unsound."""

from collections.abc import Callable, Iterator

from groupwise.config import SftConfig, TrainConfig
from groupwise.config.checks import data, grading, objective, rewards, schedule
from groupwise.findings import Finding
from groupwise.technique import sections_of

__all__ = ["Finding", "contradictions", "notes"]


def techniques(config: TrainConfig) -> Iterator[Finding]:
    """What the chosen techniques say of themselves in this configuration."""
    for section in sections_of(config):
        yield from section.findings(config)


# In the order of the sections.
CHECKS: tuple[Callable[[TrainConfig], Iterator[Finding]], ...] = (
    schedule.run,
    data.problems,
    data.prompt,
    data.stops,
    data.sampling,
    data.batch,
    data.active_sampling,
    rewards.rewards,
    grading.domains,
    grading.graders,
    grading.workers,
    grading.sandbox,
    objective.advantage,
    objective.old_logps,
    techniques,
    schedule.optimizer,
    schedule.guards,
)


def notes(config: TrainConfig) -> list[Finding]:
    """The choices that cannot act, where nothing is wrong with that."""
    return [finding for section in sections_of(config) for finding in section.notes(config)]


def contradictions(config: TrainConfig | SftConfig) -> list[Finding]:
    """All findings at once, in the order of the sections."""
    if isinstance(config, SftConfig):
        return list(schedule.supervised(config))
    return [finding for check in CHECKS for finding in check(config)]
