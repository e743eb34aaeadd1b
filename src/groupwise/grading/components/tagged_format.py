"""The format reward of tags: the structure that a completion keeps, whatever it says.

`think`: one non-empty `<think>…</think>`, then a non-empty answer. `think_answer`: the same, and the answer is alone in
one non-empty `<answer>…</answer>`.

`strict` gives 1 or 0. `soft` gives quarters, one for each part that is kept:

- `think`: `<think>` with text behind it; nothing before that `<think>`; text with `</think>` behind it; an answer
  behind that `</think>`.
- `think_answer`: the reasoning in its tags; the answer in its tags; with both, the reasoning first; with both, nothing
  outside of them.

Where a tag is repeated or empty, or closes before it opens, `soft` gives 0.

On token ids a tag that is a single token is exact; a tag of several tokens is looked for in the text between the exact
ones. On text alone a tag is seen however it was spelled. A tag is a tag in quotes and in code too, and a special token
is no content.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from groupwise.grading.components.component import Answers, Decoder, RewardComponent
from groupwise.grading.records import SPECIAL_TOKEN, Response, Score
from groupwise.technique import Card, Technique

Form = Literal["think", "think_answer"]

THINK, THINK_END, ANSWER, ANSWER_END = "<think>", "</think>", "<answer>", "</answer>"
CONTENT = "content"
TAGS: dict[Form, tuple[str, ...]] = {
    "think": (THINK, THINK_END),
    "think_answer": (THINK, THINK_END, ANSWER, ANSWER_END),
}
_SPLIT: dict[Form, re.Pattern[str]] = {
    "think": re.compile("(</?think>)"),
    "think_answer": re.compile("(</?(?:think|answer)>)"),
}
_REASONING, _ANSWER = (THINK, CONTENT, THINK_END), (ANSWER, CONTENT, ANSWER_END)


class FormatReward(RewardComponent, Technique):
    """Base of the formats: 1 where a completion keeps it, else 0 or a part. Measured with weight 0 too."""

    always_scored = True

    requires: str = ""
    """The component that has to be full for the format to be rewarded, as in `correctness`. Empty for none."""

    def described(self, max_new_tokens: int) -> str:  # noqa: ARG002
        """The name alone."""
        return "format"


class TaggedFormat(FormatReward):
    """Base of the two formats of tags."""

    form: ClassVar[Form]

    strictness: Literal["strict", "soft"] = "strict"
    """`soft` gives a quarter for each of four parts that are kept, and 0 where a tag is empty, repeated, or closed
    before it opens. `think`: a <think> with text behind it, nothing before it, text with </think> behind it, an answer
    behind that. `think_answer`: the reasoning in its tags, the answer in its tags, both in this order, nothing outside
    of both."""

    def described(self, max_new_tokens: int) -> str:  # noqa: ARG002
        """With the parts, where they count one by one."""
        return "format" if self.strictness == "strict" else "format (a quarter for each of 4 parts)"

    def score(self, answers: Answers) -> list[Score]:
        """See `score_tags`."""
        return [self.score_tags(response, answers.tag_ids, answers.decoder) for response in answers.responses_G]

    def score_tags(self, response: Response, tag_ids: Mapping[str, int], decoder: Decoder | None = None) -> Score:
        """The format reward from 0 to 1, with the reason where it is not 1.

        tag_ids: the ids of those of `<think>`, `</think>`, `<answer>`, `</answer>` that are one token each. Without
        both of the first two, or without a decoder, the text is judged.
        """
        pieces = pieces_of(response, self.form, tag_ids, decoder)
        if response.opened:
            pieces = [THINK, *pieces]
        problem = format_problem(pieces, self.form)
        if not problem:
            return Score(1.0, "scored")
        return Score(kept_fraction(pieces, self.form) if self.strictness == "soft" else 0.0, "scored", problem)


class ThinkFormat(TaggedFormat):
    """One non-empty <think>…</think>, then an answer."""

    form = "think"

    type: Literal["think"] = "think"

    cards = (
        Card(
            name="format reward",
            source="DeepSeek-R1 2501.12948",
            what="one non-empty <think>…</think> before the answer is rewarded, or another format",
            equation="R = w·correct + λ·format",
            values="λ 1 in R1-Zero",
            keys=("rewards.format", "rewards.format.weight", "rewards.format.strictness"),
            is_on=lambda c: c.any_table(lambda table: table.format.weight > 0),
            cost="none",
            test="grading/test_format_reward.py::test_think",
            differs="The seed rewards the order of the first two tags alone (`format=tag_order`), so that an empty or "
            "repeated block earns it, and nothing where the template opens the block. At λ = w a wrong answer with "
            "tags equals a right one without.",
        ),
    )


class ThinkAnswerFormat(TaggedFormat):
    """The answer alone in one non-empty <answer>…</answer> behind the <think>…</think>, with white space between."""

    form = "think_answer"

    type: Literal["think_answer"] = "think_answer"


def pieces_of(response: Response, form: Form, tag_ids: Mapping[str, int], decoder: Decoder | None) -> list[str]:
    """The pieces of the ids where both tags of thinking are single tokens, else of the text."""
    if decoder is not None and THINK in tag_ids and THINK_END in tag_ids:
        return pieces_of_ids(response.ids, form, tag_ids, decoder)
    return pieces_of_text(response.text, form)


def pieces_of_ids(ids: Sequence[int], form: Form, tag_ids: Mapping[str, int], decoder: Decoder) -> list[str]:
    """The tags of a completion in their order, and `content` wherever there is any between them."""
    tags = {tag_ids[tag]: tag for tag in TAGS[form] if tag in tag_ids}
    spelled = any(tag not in tag_ids for tag in TAGS[form])
    pieces: list[str] = []
    for tag, run in itertools.groupby(ids, tags.get):
        tokens = list(run)
        pieces += [tag] * len(tokens) if tag else _pieces_of_run(tokens, form, spelled, decoder)
    return pieces


def pieces_of_text(text: str, form: Form) -> list[str]:
    """As `pieces_of_ids`. What is a special token is recognised by its look: `<|name|>`, `<s>`, `</s>`, `<pad>`."""
    pieces = []
    for part in _SPLIT[form].split(text):
        if part in TAGS[form]:
            pieces.append(part)
        elif SPECIAL_TOKEN.sub("", part).strip():
            pieces.append(CONTENT)
    return pieces


def format_problem(pieces: Sequence[str], form: Form) -> str:
    """What is wrong with the order of the pieces; empty where nothing is."""
    pairs = [(THINK, THINK_END)] + [(ANSWER, ANSWER_END)] * (form == "think_answer")
    for tag in (tag for pair in pairs for tag in pair):
        if (count := pieces.count(tag)) != 1:
            return f"no {tag}" if count == 0 else f"{count} times {tag}"
    distances = [(pieces.index(closing) - pieces.index(opening), opening, closing) for opening, closing in pairs]
    for distance, opening, closing in distances:
        if distance < 0:
            return f"{closing} before {opening}"
    if pieces[0] == CONTENT:
        return f"text before {THINK}"
    for distance, opening, closing in distances:
        if distance == 1:
            return f"nothing between {opening} and {closing}"
    if form == "think":
        return f"no answer after {THINK_END}" if pieces[-1] == THINK_END else ""
    if tuple(pieces) == _REASONING + _ANSWER:
        return ""
    if pieces.index(ANSWER) < pieces.index(THINK_END):
        return f"{ANSWER} before {THINK_END}"
    return f"text behind {ANSWER_END}" if pieces[-1] == CONTENT else f"text between {THINK_END} and {ANSWER}"


def kept_fraction(pieces: Sequence[str], form: Form) -> float:
    """The quarters of a format that is not wholly kept; see the top of the module."""
    if _repeated_or_empty(pieces, form):
        return 0.0
    if form == "think":
        begun = THINK in pieces and CONTENT in pieces[pieces.index(THINK) + 1 :][:1]
        ended = THINK_END in pieces and CONTENT in pieces[: pieces.index(THINK_END)]
        return (begun + (begun and pieces[0] == THINK) + ended + (ended and pieces[-1] == CONTENT)) / 4
    reasoning, answer = _place(pieces, _REASONING), _place(pieces, _ANSWER)
    if reasoning < 0 or answer < 0:
        return (int(reasoning >= 0) + int(answer >= 0)) / 4
    return (2 + int(reasoning < answer) + int(pieces.count(CONTENT) == 2)) / 4


def _pieces_of_run(run: list[int], form: Form, spelled: bool, decoder: Decoder) -> list[str]:
    """What stands between two tags that are single tokens."""
    if spelled:
        text = decoder.decode(run, skip_special_tokens=False)
        # The single tokens have been taken out: a spelled <think> in here is text, as it is for the model.
        pieces = [CONTENT if piece in (THINK, THINK_END) else piece for piece in pieces_of_text(text, form)]
        if any(piece != CONTENT for piece in pieces):
            return [piece for i, piece in enumerate(pieces) if piece != CONTENT or pieces[i - 1 : i] != [CONTENT]]
    return [CONTENT] if decoder.decode(run, skip_special_tokens=True).strip() else []


def _repeated_or_empty(pieces: Sequence[str], form: Form) -> bool:
    tags = TAGS[form]
    return any(pieces.count(tag) > 1 for tag in tags) or any(
        opening in pieces and closing in pieces and pieces.index(closing) <= pieces.index(opening) + 1
        for opening, closing in zip(tags[::2], tags[1::2], strict=True)
    )


def _place(pieces: Sequence[str], pair: tuple[str, ...]) -> int:
    """Where a tag, its content and its closing tag stand next to each other; -1 for nowhere."""
    return next((i for i in range(len(pieces) - 2) if tuple(pieces[i : i + 3]) == pair), -1)
