"""Functions that score spans of an answer, as users write them."""

from collections.abc import Sequence


def pieces(text: str) -> list[tuple[int, int, float]]:
    """Pieces of five characters, each scored by its share of digits."""
    return [
        (start, min(start + 5, len(text)), sum(character.isdigit() for character in text[start : start + 5]) / 5)
        for start in range(0, len(text), 5)
    ]


def token_pieces(ids: Sequence[int]) -> list[tuple[int, int, float]]:
    """Pieces of three tokens, each scored by the last digit of its first id."""
    return [(start, min(start + 3, len(ids)), ids[start] % 10 / 10) for start in range(0, len(ids), 3)]
