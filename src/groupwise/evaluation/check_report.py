"""What `groupwise check` found, as JSON and for people."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from groupwise.data.preflight import domain_counts
from groupwise.data.splits import Shared
from groupwise.errors import listed
from groupwise.evaluation.check_files import Check, FileCheck

_LISTED = 3
ROWS, COLUMNS, DOMAINS, UNUSABLE = "rows", "columns", "domains", "unusable rows"
PROMPTS = "prompt tokens: min / median / 95 % / max"
_ALWAYS_SHOWN = (ROWS, COLUMNS, DOMAINS, UNUSABLE, PROMPTS)


def to_json(check: Check) -> dict[str, Any]:
    """All that was found. `refused` says why `groupwise train` would refuse, and is empty where it would not."""
    return {
        "refused": check.refused,
        "model": check.model,
        "context_tokens": check.context_tokens,
        "max_new_tokens": check.max_new_tokens,
        "train": _file_as_json(check.train),
        "eval": [_file_as_json(file) for file in check.held_out],
        "overlap": {kind: [one._asdict() for one in found] for kind, found in check.overlap._asdict().items()},
    }


def print_check(check: Check, console: Console | None = None) -> None:
    """A table of numbers, one column for each file, and under it the rows that somebody has to look at."""
    console = console or Console()
    files = (check.train, *check.held_out)
    table = Table(box=None)
    table.add_column("")
    for file, use in zip(files, ("train", *["eval"] * len(check.held_out)), strict=True):
        table.add_column(f"{use}: {Path(file.report.path).name}", justify="right", overflow="fold")
    for row in zip(*(_numbers(file, check) for file in files), strict=True):
        label, values = row[0][0], [value for _, value in row]
        if label in _ALWAYS_SHOWN or any(value not in ("0", "0 / 0") for value in values):
            table.add_row(label, *values)
    console.print(table)
    for title, lines in _details(check, files):
        if lines:
            console.print(title, style="bold", highlight=False, markup=False, soft_wrap=True)
            console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    verdict = f"refused: {check.refused}" if check.refused else "these problems can be trained on"
    console.print(verdict, style="bold", highlight=False, markup=False, soft_wrap=True)


def _file_as_json(file: FileCheck) -> dict[str, Any]:
    report = file.report
    return {
        "path": report.path,
        "rows": report.rows,
        "usable": len(report.problems),
        "unusable": len(report.unusable),
        "unusable_share": report.unusable_share,
        "unusable_rows": [asdict(row) for row in report.unusable],
        "shape": file.shape,
        "domains": domain_counts(report.problems),
        "prompt_tokens": None if file.lengths is None else asdict(file.lengths),
        "not_judged_here": file.unjudged,
        "repeated": file.repeats._asdict(),
        "remarks": asdict(file.remarks),
    }


def _numbers(file: FileCheck, check: Check) -> list[tuple[str, str]]:
    """The rows of the table for one file; the same ones for every file."""
    report, lengths, repeats, remarks = file.report, file.lengths, file.repeats, file.remarks
    kinds = [row.kind for row in report.unusable]
    spread = "none"
    if lengths is not None:
        spread = f"{lengths.shortest} / {lengths.median} / {lengths.p95} / {lengths.longest}"
    return [
        (ROWS, f"{report.rows:,}"),
        (COLUMNS, file.shape or "none"),
        (DOMAINS, ", ".join(f"{name} {count:,}" for name, count in domain_counts(report.problems).items()) or "none"),
        (UNUSABLE, f"{len(report.unusable):,} ({100 * report.unusable_share:.2f} %)"),
        ("  cannot be read", f"{kinds.count('row'):,}"),
        ("  answer unusable", f"{kinds.count('answer') + kinds.count('solution'):,}"),
        (f"  prompt over {check.context_tokens:,} - {check.max_new_tokens:,} tokens", f"{kinds.count('prompt'):,}"),
        (PROMPTS, spread),
        ("repeated questions: exact / normalised", f"{_extra(repeats.exact):,} / {_extra(repeats.normalised):,}"),
        ("  with answers that differ", f"{len(repeats.contradictory):,}"),
        ("without a domain", f"{len(remarks.missing_domain):,}"),
        ("very long answers", f"{len(remarks.long_answers):,}"),
        ("questions that end with the answer", f"{len(remarks.given_away):,}"),
        ("tests that were read in part", f"{len(remarks.weak_tests):,}"),
        ("judged by a reward function alone", f"{file.unjudged:,}"),
    ]


def _details(check: Check, files: Sequence[FileCheck]) -> Iterator[tuple[str, list[str]]]:
    """Titles, each with the rows that somebody has to look at; without rows there is nothing to see."""
    unusable = [f"{row.source}: {_short(row.reason)}" for file in files for row in file.report.unusable]
    yield "rows that cannot be used:", listed(unusable)
    contradictory = [", ".join(group) for file in files for group in file.repeats.contradictory]
    yield "the same question with different answers:", listed(contradictory, _LISTED)
    for title, remark in (
        ("very long answers, without a box; are these solutions?", "long_answers"),
        ("questions that end with the answer:", "given_away"),
        ("no domain, where other rows have one:", "missing_domain"),
    ):
        yield title, listed([source for file in files for source in getattr(file.remarks, remark)], _LISTED)
    shared = [_overlap_line(shared) for kind in check.overlap for shared in kind]
    counts = ", ".join(f"{len(found)} {kind}" for kind, found in check.overlap._asdict().items())
    yield f"held-out questions that training has too ({counts}):", listed(shared, _LISTED)


def _extra(groups: Sequence[Sequence[str]]) -> int:
    """How many rows say again what another one says."""
    return sum(len(group) - 1 for group in groups)


def _overlap_line(shared: Shared) -> str:
    like = "is" if shared.share == 1.0 else f"shares {100 * shared.share:.0f} % of its runs of words with"
    return f"{shared.held_out} {like} {shared.train}"


def _short(reason: str) -> str:
    return reason if len(reason) <= 200 else reason[:200] + "…"
