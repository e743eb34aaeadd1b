"""Options of grading: how domains differ, and how the work of grading is done."""

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
