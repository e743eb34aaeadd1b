"""What one grading may cost, checked before anything is computed."""

MAX_CHARACTERS = 4_096
MAX_DIGITS = 10_000
MAX_BITS = 33_220
MAX_DEPTH = 80
MAX_NODES = 2_000
MAX_FACTORIAL = 2_000
MAX_POSTFIX = 8
MAX_WORK = 8_000


class ParseError(Exception):
    """The text is not mathematics that this grader reads."""


class OutOfBoundsError(Exception):
    """Comparing would cost more than one grading may."""


class Budget:
    """The work left to one grading; a unit is about a microsecond. salt: its points are drawn from it."""

    __slots__ = ("left", "salt")

    def __init__(self, work: int = MAX_WORK, salt: int = 0) -> None:
        self.left = work
        self.salt = salt

    def spend(self, work: int) -> None:
        """Take work off the budget, or raise OutOfBoundsError."""
        self.left -= work
        if self.left < 0:
            raise OutOfBoundsError("more work than one grading may cost")

    def spend_bits(self, bits: int) -> None:
        """Take off an operation on integers of so many bits, whose cost grows with their square."""
        if bits > MAX_BITS:
            raise OutOfBoundsError(f"a number of more than {MAX_DIGITS} digits")
        self.spend(1 + (bits * bits >> 18))


class UndefinedError(Exception):
    """The expression has no value, as 1/0."""
