"""Verdicts on the rows of a file: columns `id`, `response`, `gold`, and what the grader says of each."""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from groupwise.config.messages import explain
from groupwise.config.schema import Path as KeyPath
from groupwise.config.yaml_document import YamlError, quoted_text, read_value
from groupwise.data.rows import Row, json_lines, kind_of, read_rows, shorten
from groupwise.errors import UsageError
from groupwise.grading.math.math_grader import grade
from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.records import Response, Verdict

STANDARD_INPUT = "-"
SHOWN_DISAGREEMENTS = 10


class Graded(NamedTuple):
    """A row with its verdict, or with the reason why it could not be graded. `id` is as it stands in the row.

    `expected` is the column of that name where it is true or false: whether the row should be accepted.
    """

    number: int
    id: Any
    verdict: Verdict | None
    gold: str = ""
    expected: bool | None = None
    error: str = ""


def read_graded_rows(file: str, policy: MathOptions) -> Iterator[Graded]:
    """The rows of a file, or of standard input for `-`, each graded when it is asked for. Raises DataError."""
    return grade_rows(json_lines(sys.stdin.buffer) if file == STANDARD_INPUT else read_rows(Path(file)), policy)


def grade_rows(rows: Iterable[Row], policy: MathOptions) -> Iterator[Graded]:
    """One result for each row, in order. `id` is the row's number where there is no such column."""
    for row in rows:
        fault = row.error or _fault(row.columns)
        name = row.columns.get("id", row.number)
        if fault:
            yield Graded(row.number, name, None, error=fault)
            continue
        columns = row.columns
        response = Response((), columns["response"], columns.get("truncated") is True, columns.get("opened") is True)
        expected = columns.get("expected")
        question = columns.get("question")
        verdict = grade(response, columns["gold"], policy, question if isinstance(question, str) else "")
        yield Graded(row.number, name, verdict, columns["gold"], expected if isinstance(expected, bool) else None)


def as_data(graded: Graded) -> dict[str, Any]:
    """A verdict as JSON: `score` is null where the reference answer is unusable, `ms` are milliseconds."""
    verdict = graded.verdict
    if verdict is None:
        raise ValueError(f"row {graded.number} has no verdict: {graded.error}")
    return {
        "id": graded.id,
        "status": verdict.status,
        "score": None if math.isnan(verdict.score) else verdict.score,
        "extracted": verdict.extracted,
        "method": verdict.method,
        "ms": round(verdict.milliseconds, 3),
        "flags": list(verdict.flags),
        "detail": verdict.detail,
    }


def summary(results: Sequence[Graded]) -> str:
    """Counts by status, the time, and the first rows where the verdict is not the expected one."""
    graded = [(result, result.verdict) for result in results if result.verdict is not None]
    counts = Counter(verdict.status for _, verdict in graded)
    times = [verdict.milliseconds for _, verdict in graded]
    lines = [f"{status:<12}{count:>8}" for status, count in counts.most_common()]
    lines.append(f"{'all':<12}{len(graded):>8}   {sum(times):.1f} ms in all, {max(times, default=0.0):.1f} ms at most")
    judged = [(result, verdict) for result, verdict in graded if result.expected is not None]
    apart = [pair for pair in judged if (pair[1].status == "correct") != pair[0].expected]
    if judged:
        lines.append(f"{len(apart)} of {len(judged)} verdicts are not the expected ones")
    for result, verdict in apart[:SHOWN_DISAGREEMENTS]:
        lines.append(
            f"- {result.id}: {verdict.status}, expected {'correct' if result.expected else 'not correct'}: "
            f"answer {shorten(verdict.extracted)}, reference {shorten(result.gold)}"
            + (f" ({verdict.detail})" if verdict.detail else "")
        )
    return "\n".join(lines)


def faults(file: str, results: Iterable[Graded]) -> str:
    """The rows that could not be graded, each with its place; empty where there are none."""
    name = "standard input" if file == STANDARD_INPUT else file
    lines = [f"- {name}:{result.number}: {result.error}" for result in results if result.error]
    count = "1 row" if len(lines) == 1 else f"{len(lines)} rows"
    return f"{name}: {count} could not be graded:\n" + "\n".join(lines) if lines else ""


def read_policy(overrides: Sequence[str]) -> MathOptions:
    """The policy with overrides such as `answer=boxed`. Raises UsageError that lists everything that is wrong."""
    values: dict[str, Any] = {}
    errors: list[str] = []
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            errors.append(
                f"{override!r}: expected KEY=VALUE, where KEY is one of {', '.join(MathOptions.model_fields)}"
            )
            continue
        try:
            values[key.strip()] = _value(text, override)
        except YamlError as error:
            errors += error.messages
    return policy_of(values, errors)


def policy_of(values: Mapping[str, Any], errors: Sequence[str] = ()) -> MathOptions:
    """The policy with these options. Raises UsageError that lists everything that is wrong, behind `errors`."""
    positions: dict[KeyPath, str] = {(key,): f"{key}=…" for key in values}
    found = [*errors]
    try:
        policy = MathOptions.model_validate(values)
    except ValidationError as error:
        found += [explain(MathOptions, detail, positions) for detail in error.errors()]
    if found:
        raise UsageError("the options of the grader:\n" + "\n".join(f"- {error}" for error in found))
    return policy


def _value(text: str, override: str) -> Any:
    quoted = quoted_text(text)
    return read_value(text, override) if quoted is None else quoted


def _fault(columns: dict[str, Any]) -> str:
    wanted = [(name, columns[name]) for name in ("response", "gold") if name in columns]
    missing = [name for name in ("response", "gold") if name not in columns]
    if missing:
        found = ", ".join(map(str, columns)) or "none"
        return f"no column {' and no column '.join(missing)}; expected id, response and gold, found {found}"
    wrong = [f"{name}: expected text, found {kind_of(value)}" for name, value in wanted if not isinstance(value, str)]
    identity = columns.get("id", "")
    if not isinstance(identity, str | int) or isinstance(identity, bool):
        wrong.append(f"id: expected text or an integer, found {kind_of(identity)}")
    return "; ".join(wrong)
