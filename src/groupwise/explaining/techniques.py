"""The registry: every technique that a configuration can have, collected from the options themselves."""

from groupwise.config import TrainConfig
from groupwise.technique import Card, sections_in, sections_of

__all__ = ["ADDITIONS", "FIFTEEN", "cards_of"]

_CARDS = [card for section in sections_in(TrainConfig) for card in section.cards]
# A section that stands in the configuration twice, as the rewards of domains do, has its cards once.
_ALL: tuple[Card, ...] = tuple({id(card): card for card in _CARDS}.values())

FIFTEEN: tuple[Card, ...] = tuple(sorted((c for c in _ALL if c.number is not None), key=lambda card: card.number or 0))
ADDITIONS: tuple[Card, ...] = tuple(card for card in _ALL if card.number is None)


def cards_of(config: TrainConfig) -> list[Card]:
    """The techniques that a configuration has: those with a number in their order, the additions, the user's own."""
    own = [card for section in sections_of(config) if getattr(section, "origin", None) for card in section.cards]
    return [card for card in (*FIFTEEN, *ADDITIONS, *own) if card.is_on(config)]
