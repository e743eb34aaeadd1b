"""What a component of the reward is made of: options, a score of each completion, words, checks, a row in the docs.

One module holds one component; the list of them is `grading.reward_options.RewardOptions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from groupwise.grading.records import Response, Score
from groupwise.options import NonNegativeFloat
from groupwise.technique import Section

if TYPE_CHECKING:
    from groupwise.config.checks.table import Table
    from groupwise.findings import Finding


class Decoder(Protocol):
    """The one thing that is needed of a tokenizer."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """The text of these tokens."""
        ...


@dataclass(frozen=True, slots=True)
class Answers:
    """The completions of one problem, as components see them.

    tokens_G: lengths with the token that stopped each. correctness_G: scores of the grader. tag_ids: the ids of those
    of `<think>`, `</think>`, `<answer>`, `</answer>` that are one token each.
    """

    responses_G: Sequence[Response]
    tokens_G: Sequence[int]
    correctness_G: Sequence[Score]
    max_new_tokens: int
    tag_ids: Mapping[str, int]
    decoder: Decoder | None


class RewardComponent(Section):
    """Base of the components.

    lowest, highest: of its scores; `best_wrong`: what a wrong answer can score at most. switch: the option that turns
    it on where it is above 0; turn_on: how, in words. always_scored: it is measured also where it is not rewarded.
    """

    lowest: ClassVar[float] = 0.0
    highest: ClassVar[float] = 1.0
    best_wrong: ClassVar[float] = 1.0
    switch: ClassVar[str] = "weight"
    turn_on: ClassVar[str] = "give it a weight"
    always_scored: ClassVar[bool] = False

    weight: NonNegativeFloat = 0.0

    @property
    def is_on(self) -> bool:
        """Whether its scores are worked out by these options."""
        return self.always_scored or getattr(self, self.switch) > 0

    def score(self, answers: Answers) -> list[Score]:
        """The score of each completion, over G."""
        raise NotImplementedError

    def described(self, max_new_tokens: int) -> str:
        """The score in a few words, for the equation."""
        raise NotImplementedError

    def findings_in(self, table: Table) -> Iterator[Finding]:  # noqa: ARG002 - of those that check something
        """What is wrong with its options, where it is on."""
        yield from ()
