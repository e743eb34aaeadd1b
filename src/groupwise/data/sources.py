"""Where problems come from: the sources that a configuration names, opened."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from groupwise.config.data import ProblemOptions, is_generated
from groupwise.data.arithmetic import arithmetic_problem
from groupwise.data.files import ProblemFile, fingerprint, read_file
from groupwise.data.preflight import ProblemCheck, preflight, refuse
from groupwise.data.reasoning_gym import gym_source
from groupwise.data.stream import ProblemStream, mixed_stream, shuffled_stream
from groupwise.data.toy_code import toy_code_problem
from groupwise.errors import DataError, listed
from groupwise.findings import suggest_word
from groupwise.problem import GYM_PREFIX, Problem

# Any problem from (seed, split, index) alone.
Generator = Callable[[int, Literal["train", "eval"], int], Problem]
GENERATED: dict[str, Generator] = {"arithmetic": arithmetic_problem, "toy_code": toy_code_problem}
# Problems that represent a generator when something is checked before training.
LOOKED_AT = 32
# The generated problems that are measured on are the same for every seed of a run.
EVAL_SEED = 0


@dataclass(frozen=True)
class Source:
    """Problems to train on.

    some: all problems of a file, and the first ones of a generator. fingerprint tells sources apart; shown says in
    words what they are.
    """

    stream: ProblemStream
    some: tuple[Problem, ...]
    fingerprint: str
    shown: str

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains of the problems, in alphabetical order."""
        return tuple(sorted({problem.domain for problem in self.some}))


def read_files(options: ProblemOptions, names: Iterable[str]) -> dict[str, ProblemFile]:
    """The files among these sources, by their names. Raises DataError if one cannot be read as a whole."""
    columns = options.columns
    names = list(names)
    for name in names:
        if not is_generated(name) and not Path(name).suffix and not Path(name).exists():
            hint = (
                suggest_word(name, list(GENERATED)) or f"; expected {', '.join(GENERATED)}, {GYM_PREFIX}NAME, or a file"
            )
            raise DataError(f"{name}: there is neither such a generated source nor such a file{hint}")
    return {
        name: read_file(Path(name), columns.problem, columns.answer, columns.domain)
        for name in dict.fromkeys(names)
        if not is_generated(name)
    }


def usable_files(
    files: Mapping[str, ProblemFile], checks: Mapping[str, ProblemCheck]
) -> tuple[dict[str, ProblemFile], list[str]]:
    """The files without the rows that some check refuses, and what was left out, for people.

    Raises:
        DataError: if more than 1 % of the rows of a file are unusable.
    """
    usable, remarks = {}, []
    for name, file in files.items():
        report = preflight(file.problems, file.unusable, checks, name)
        refuse(report)
        usable[name] = file
        if report.unusable:
            problems = list(report.problems)
            usable[name] = replace(file, problems=problems, fingerprint=fingerprint(problems))
            remarks += [f"{name}: left out {len(report.unusable)} of {report.rows} rows:", *listed(report.unusable)]
    return usable, remarks


def open_sources(options: ProblemOptions, files: Mapping[str, ProblemFile], seed: int) -> Source:
    """All sources that are trained on, as one; files as `usable_files` gives them."""
    shares = options.train_sources
    sources = [open_source(name, files, seed) for name in shares]
    if len(sources) == 1:
        return sources[0]
    total = sum(shares.values())
    pairs = list(zip(shares.values(), sources, strict=True))
    return Source(
        stream=mixed_stream([source.stream for source in sources], list(shares.values())),
        some=tuple(problem for source in sources for problem in source.some),
        fingerprint="+".join(f"{share:g}*{source.fingerprint}" for share, source in pairs),
        shown=", ".join(f"{share / total:.0%} {source.shown}" for share, source in pairs),
    )


def open_source(name: str, files: Mapping[str, ProblemFile], seed: int) -> Source:
    """One source to train on."""
    if not is_generated(name):
        file = files[name]
        shown = f"{name} ({len(file.problems)} rows, {file.shape})"
        return Source(shuffled_stream(file.problems, seed), tuple(file.problems), file.fingerprint, shown)
    make = generator(name)
    count = gym_source(name).size if name.startswith(GYM_PREFIX) else None
    if count is not None:
        problems = tuple(make(seed, "train", index) for index in range(count))
        return Source(shuffled_stream(problems, seed), problems, f"{name}/{seed}", f"{name} ({count} problems)")
    stream = ProblemStream(lambda index: make(seed, "train", index))
    some = tuple(stream.at(index) for index in range(LOOKED_AT))
    return Source(stream, some, f"{name}/{seed}", f"generated {name}")


def eval_problems(options: ProblemOptions, files: Mapping[str, ProblemFile]) -> list[Problem]:
    """Problems to measure on, at most `eval_problems` of each source."""
    names = options.eval_sources or [name for name in options.train_sources if is_generated(name)]
    if options.eval_problems == 0:
        return []
    return [problem for name in names for problem in _eval_source(name, options.eval_problems, files)]


def _eval_source(name: str, count: int, files: Mapping[str, ProblemFile]) -> list[Problem]:
    if is_generated(name):
        return distinct_problems(name, count)
    problems = files[name].problems
    chosen = np.random.Generator(np.random.Philox(EVAL_SEED)).permutation(len(problems))
    return [problems[index] for index in chosen[:count]]


def generator(name: str) -> Generator:
    """The generator of a source that is no file. Raises DataError if it cannot be had."""
    return GENERATED[name] if name in GENERATED else gym_source(name).problem


def distinct_problems(name: str, count: int) -> list[Problem]:
    """Held-out generated problems, no two with the same text, so that each one counts once in an interval.

    Raises:
        DataError: if there are not so many.
    """
    make = generator(name)
    problems: dict[str, Problem] = {}
    index = newest = 0
    while len(problems) < count:
        problem = make(EVAL_SEED, "eval", index)
        if problem.question not in problems:
            problems[problem.question], newest = problem, index
        index += 1
        if index - newest > 5_000:
            raise DataError(
                f"only {len(problems)} different problems of {name} can be generated: lower problems.eval_problems "
                f"from {count}"
            )
    return list(problems.values())
