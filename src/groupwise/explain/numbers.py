"""Numbers as text."""


def number(value: float) -> str:
    """A number as one writes it by hand: 0.0001, 1.28, 11."""
    return f"{value:.6g}"
