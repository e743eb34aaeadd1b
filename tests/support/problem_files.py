"""Problem files as a whole: a row that is no problem is an error."""

from pathlib import Path

from groupwise.data.files import ProblemFile, read_file, unusable_rows
from groupwise.errors import DataError


def read_problems(
    path: str | Path, problem_column: str = "", answer_column: str = "", domain_column: str = ""
) -> ProblemFile:
    """As `read_file`, but rows that cannot be used raise DataError, listed together."""
    file = read_file(path, problem_column, answer_column, domain_column)
    if file.unusable:
        raise DataError(unusable_rows(file.path, file.unusable))
    return file
