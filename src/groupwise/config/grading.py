"""Options of grading: how domains differ, and how the work of grading is done."""

from typing import Any

from groupwise.grading.reward_options import OnError, RewardOptions
from groupwise.options import NonNegativeFloat, NonNegativeInt, Options, PositiveFloat


class DomainOptions(Options):
    """What differs for the problems of one domain."""

    kl_coefficient: NonNegativeFloat | None = None
    """Coefficient of the KL penalty for this domain; without one kl.coefficient applies."""

    rewards: RewardOptions = RewardOptions()
    """What differs from the section rewards: it is merged over that key by key, so that it is whole once loaded."""


class GradingOptions(Options):
    """How completions are graded."""

    workers: NonNegativeInt = 0
    """Processes that run reward functions; 0 for one on each core."""

    on_error: OnError = "drop_group"
    """What a failure of a grader that is built in does, such as an unusable reference answer or a sandbox that does not
    start: leave the sample out, leave its group out, or stop the run. Reward functions state their own."""

    second_grader_seconds: PositiveFloat = 5.0
    """Deadline of the second grader for one answer; its process is killed then and the answer counts as undecided."""


def merged(base: Any, changes: Any) -> Any:
    """`changes` over `base`: mappings key by key, everything else replaced."""
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        return changes
    return {**base, **{key: merged(base[key], value) if key in base else value for key, value in changes.items()}}


def differences(base: Any, whole: Any) -> Any:
    """The smallest tree that gives `whole` when it is merged over `base`; `whole` has every key of `base`."""
    if not (isinstance(base, dict) and isinstance(whole, dict)):
        return whole
    changed = {key: value for key, value in whole.items() if key not in base or base[key] != value}
    return {key: differences(base[key], value) if key in base else value for key, value in changed.items()}
