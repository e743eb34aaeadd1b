"""The corpus of graded answers, by kind."""

from tests.grading.math.corpus import closed_forms, numbers, readings, structures, words
from tests.grading.math.corpus.choices import policy_cases
from tests.grading.math.corpus.extraction import extraction_cases
from tests.grading.math.corpus.final_statements import STATEMENTS
from tests.grading.math.corpus.hostile import hostile_cases
from tests.grading.math.corpus.kind import Case, Kind, cases_of

KINDS: dict[str, Kind] = {**numbers.KINDS, **closed_forms.KINDS, **structures.KINDS, **words.KINDS, **readings.KINDS}


def all_cases() -> list[Case]:
    """Every case."""
    pairs = [case for name, kind in KINDS.items() for case in cases_of(name, kind)]
    return [*pairs, *extraction_cases(STATEMENTS), *hostile_cases(), *policy_cases()]
