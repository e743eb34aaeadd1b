"""Checks of advantages that differ between the tokens of an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from groupwise.findings import Finding, error, warning
from groupwise.objective.masks.off_policy import SequenceMask

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


def beside_token_advantages(config: TrainConfig, key: str, what: str) -> Iterator[Finding]:
    """What takes an advantage to be of a whole answer, next to the option `key` under which it is of each token.

    what: is lost then, in words.
    """
    objective = config.objective
    if objective.ratio.of_episode or objective.surrogate.type == "gmpo":
        other = "objective.ratio" if objective.ratio.of_episode else "objective.surrogate"
        value = objective.ratio.type if objective.ratio.of_episode else "gmpo"
        text = (
            f"{key} with {other}={value}: a ratio of the whole answer hands the advantage of each token to all tokens "
            f"of the answer, so that what {what} is lost; set objective.ratio=token or gspo_token with a surrogate of "
            "tokens"
        )
        yield error((other, key.partition("=")[0]), text)
    if isinstance(config.off_policy_mask, SequenceMask):
        text = (
            f"off_policy_mask=sequence with {key}: whether an answer is bad is the sign of the mean advantage of its "
            "tokens, whose own may differ in sign; set off_policy_mask=none if that is not meant"
        )
        yield warning(("off_policy_mask", key.partition("=")[0]), text)
