"""The reward for a right answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

from groupwise.findings import suggest_word
from groupwise.grading.components.component import Answers, RewardComponent
from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.records import Score, Verdict
from groupwise.options import NonNegativeFloat, NonNegativeInt, Options
from groupwise.technique import Card

if TYPE_CHECKING:
    from groupwise.config.checks.table import Table
    from groupwise.findings import Finding
    from groupwise.grading.reward_options import RewardOptions

ForgottenImports = Literal["usual", "all", "none"]
GRADERS = ("auto", "math", "code")


class CodeOptions(Options):
    """How programs are graded."""

    credit: Literal["all", "fraction"] = "all"
    """`all`: 1 if all tests pass, else 0. `fraction`: the fraction of the tests that pass."""

    max_tests: NonNegativeInt = 0
    """Use at most so many tests of a problem, the first ones; 0 for all."""

    float_tolerance: NonNegativeFloat = 1e-6
    """Largest difference, absolute or relative, of numbers that count as equal, where the test expects one with a point
    or an exponent; 0 for exact. Integers are always compared digit by digit, and an assert states its own tolerance."""

    forgotten_imports: ForgottenImports = "usual"
    """Programs that use well-known names of the standard library without importing them, as `List`, get the imports:
    `usual` where those who made the tests provide them (LeetCode, LiveCodeBench), `all` everywhere, or `none`."""


class Correctness(RewardComponent):
    """The reward for a right answer: 1, or for programs a fraction of it."""

    always_scored, best_wrong = True, 0.0

    weight: NonNegativeFloat = 1.0

    grader: str = "auto"
    """`auto`: by tests where the problem has some, by the problem's own scorer where only that can tell, otherwise as
    mathematics. `math`, `code`, or the name of one of rewards.functions, whose 1 then counts as right."""

    undecided: Literal["wrong", "drop"] = "wrong"
    """What an answer scores that the grader can neither accept nor refuse within its bounds: 0, or it is an error. A
    policy can learn to write such answers, so `drop` lets it choose not to be graded."""

    second_grader: Literal["none", "math_verify"] = "none"
    """Asked about undecided answers, in its own process that is killed at its deadline."""

    math: MathOptions = MathOptions()

    code: CodeOptions = CodeOptions()

    cards = (
        Card(
            name="partial credit for programs",
            source="in use",
            what="a program scores the fraction of the tests that it passes, not all or nothing",
            equation="correct = passed / tests",
            values="none",
            keys=("rewards.correctness.code.credit",),
            is_on=lambda c: c.any_table(lambda table: table.correctness.code.credit == "fraction"),
            cost="none; programs run in a sandbox either way",
            test="options/test_every_option.py::test_the_option_gives_what_follows_by_hand",
            differs="DeepSeek-R1 and most others reward all or nothing: a fraction can be had by answers for the easy "
            "cases.",
        ),
        Card(
            name="second grader",
            source="Math-Verify",
            what="answers that the grader cannot decide are given to another one, in its own process",
            equation="correct = verdict of the second where the first is undecided",
            values="none",
            keys=(
                "rewards.correctness.second_grader",
                "rewards.correctness.undecided",
                "grading.second_grader_seconds",
            ),
            is_on=lambda c: c.any_table(lambda table: table.correctness.second_grader != "none"),
            cost="up to grading.second_grader_seconds for each undecided answer",
            test="options/test_every_option.py::test_the_option_gives_what_follows_by_hand",
            differs="Others compute it in the trainer's process, where it parses and simplifies text of the model.",
        ),
    )

    def score(self, answers: Answers) -> list[Score]:
        """Those of the grader, which is asked before everything else."""
        return list(answers.correctness_G)

    def score_verdict(self, verdict: Verdict) -> Score:
        """The reward for a verdict. Where the response is to blame that nothing was decided, `undecided` says."""
        undecided = verdict.status in ("undecided", "timeout")
        if verdict.status in ("gold_bad", "error") or (undecided and self.undecided == "drop"):
            return Score(float("nan"), "error", f"{verdict.status}: {verdict.detail or verdict.extracted[:60]}")
        if verdict.status == "no_answer":
            return Score(0.0, "no_answer", verdict.detail)
        detail = f"{verdict.status}: {verdict.detail}" if verdict.detail else verdict.status
        return Score(verdict.score, "scored", detail)

    def described(self, max_new_tokens: int) -> str:  # noqa: ARG002
        """As in the equation of every paper."""
        return "correct"

    def findings_in(self, table: Table) -> Iterator[Finding]:
        """Who grades, and the options of graders that do not."""
        known = (*GRADERS, *table.options.functions)
        if self.grader not in known:
            hint = suggest_word(self.grader, known) or f"; expected one of {', '.join(known)}"
            text = f"{table.key('correctness.grader')}={self.grader} is no grader{hint}"
            yield table.error(("correctness.grader",), text)
            return
        because = f"correctness.grader={self.grader}"
        for name in ("undecided", "second_grader", *(f"math.{field}" for field in MathOptions.model_fields)):
            yield from table.unused(f"correctness.{name}", because, "set it to auto or math", _grades("math"))
        for name in CodeOptions.model_fields:
            yield from table.unused(f"correctness.code.{name}", because, "set it to auto or code", _grades("code"))


def _grades(what: str) -> Callable[[RewardOptions], bool]:
    return lambda options: options.correctness.grader in ("auto", what)
