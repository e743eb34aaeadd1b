"""Options of the guards: when a run that is broken stops, and when it only says so."""

from typing import Literal

from groupwise.options import NonNegativeInt, Options, PositiveFloat

Action = Literal["stop", "warn"]


class GuardOptions(Options):
    """When a run that is broken stops. Weights, log-probabilities, rewards or losses that are no finite numbers always
    stop it. Everything else is said at once, and counted from the start or the resumption of the run."""

    skipped_updates: NonNegativeInt = 3
    """Updates in a row that are skipped, because their gradient is not finite, after which the run stops; 0 for
    never."""

    steps_without_update: NonNegativeInt = 10
    """Steps in a row without any update, most often because no group was admitted, after which the run stops; 0 for
    never."""

    steps_of_failing_reward: NonNegativeInt = 3
    """Steps in a row in which a reward could not judge most of its answers after which the run stops; 0 for never."""

    constant_reward: Action = "warn"
    """What happens when a reward function gives the same to all answers so far, once there are enough of them."""

    engine_gap: Action = "stop"
    """What happens when engine and trainer disagree about the log-probability of a sampled token with the same weights:
    in float32 by more than 1e-3 nats, in bfloat16 by more than `engine_gap_factor` allows."""

    engine_gap_factor: PositiveFloat = 10.0
    """In bfloat16, how many times the mean gap of the check at the start the mean gap of a step may be."""

    health: Literal["off", "warn", "stop"] = "warn"
    """What happens when a rule over the last steps finds the run unhealthy, see `groupwise diagnose`: `warn` says so,
    `stop` also ends the run with a checkpoint where the finding is critical."""
