"""The registry: every technique that a configuration can have."""

from groupwise.config import TrainConfig
from groupwise.explain.techniques.beside import DATA, PENALTIES
from groupwise.explain.techniques.fifteen import FIFTEEN
from groupwise.explain.techniques.policy_term import ADVANTAGES, SURROGATES
from groupwise.explain.techniques.technique import Technique
from groupwise.grading.reward_options import reward_cards

__all__ = ["ADDITIONS", "FIFTEEN", "Technique", "techniques_of"]

ADDITIONS: tuple[Technique, ...] = (*ADVANTAGES, *SURROGATES, *PENALTIES, *reward_cards(), *DATA)


def techniques_of(config: TrainConfig) -> list[Technique]:
    """The techniques that a configuration has: those with a number in their order, then the additions."""
    return [technique for technique in (*FIFTEEN, *ADDITIONS) if technique.is_on(config)]
