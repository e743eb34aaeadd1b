"""One technique as data: `groupwise explain`, `groupwise recipes` and docs/techniques.md are made of it."""

from groupwise.technique import Card as Technique

__all__ = ["Technique"]
