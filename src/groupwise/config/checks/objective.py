"""Checks of the policy loss that no technique makes alone: where the old log-probabilities come from."""

from collections.abc import Iterator

from groupwise.config import TrainConfig
from groupwise.findings import Finding, warning


def old_logps(config: TrainConfig) -> Iterator[Finding]:
    """Source of the old log-probabilities."""
    options, uses = config.objective, config.uses_of_old
    if options.old_logps == "sampler" and config.model.compute_dtype == "bfloat16" and uses:
        text = (
            "objective.old_logps=sampler with model.compute_dtype=bfloat16: the engine's bfloat16 copy differs from "
            f"the trainer by about a hundredth of a nat a token, which {uses[0]} takes for a change of the policy; set "
            "objective.old_logps=trainer"
        )
        yield warning(("objective.old_logps", "model.compute_dtype"), text)
    if options.old_logps == "trainer" and not uses:
        text = (
            f"objective.old_logps=trainer with objective.ratio={options.ratio.type} and objective.surrogate="
            f"{options.surrogate.type}: nothing compares the policy with the one that sampled; set "
            "objective.old_logps=sampler"
        )
        yield warning(("objective.old_logps", "objective.ratio"), text)
