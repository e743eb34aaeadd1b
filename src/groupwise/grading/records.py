"""What a reward function reads and what it says."""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

# Text alone cannot tell a special token for certain; these are the forms that they have.
SPECIAL_TOKEN = re.compile(r"<\|[^<>|\s]{1,64}\|>|</?s>|<(?:pad|unk|bos|eos)>")

Status = Literal["correct", "wrong", "no_answer", "gold_bad", "undecided", "timeout", "error"]


@dataclass(frozen=True, slots=True)
class Response:
    """A completion to be judged.

    `ids` are the tokens without the one that stopped it, `text` their text with special tokens. `truncated`: it was cut
    off at the length limit. `opened`: the prompt ends inside an open `<think>`, put there by a chat template or a
    prefill, so that the completion itself only closes it.
    """

    ids: tuple[int, ...]
    text: str
    truncated: bool = False
    opened: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a grader of answers or programs says.

    score: 1 for `correct`, the share of passed tests where partial credit is given, otherwise 0; NaN for `gold_bad` and
    `error`, which say nothing about the response. `undecided`: outside what the grader can compare within its bounds;
    `timeout`: a second grader was stopped at its deadline. extracted: the answer as it was written. method: how it was
    compared. flags: what is remarkable about the response, such as `multiple_boxes`.
    """

    status: Status
    score: float
    extracted: str = ""
    method: str = ""
    milliseconds: float = 0.0
    detail: str = ""
    flags: tuple[str, ...] = ()


class Span(NamedTuple):
    """A part of an answer with its score; `end` is behind its last character or token."""

    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Score:
    """One reward of one completion; `detail` says why, for people.

    `scored` and `no_answer` (there was nothing to grade, which earns 0) count alike. `error` means that the reward
    could not judge: its value is NaN, so that it can never pass for a 0, and the sample or its group is left out.
    spans: in tokens of the completion, of a function that scores parts of it.
    """

    value: float
    status: Literal["scored", "no_answer", "error"]
    detail: str = ""
    spans: tuple[Span, ...] = ()
