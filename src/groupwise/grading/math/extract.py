"""Where the answer stands in a response. All of it takes time linear in the length of the text."""

import re
from dataclasses import dataclass

from groupwise.grading.math.boxes import boxes_of, joined
from groupwise.grading.math.math_options import AnswerMode
from groupwise.grading.math.unmarked import closing, explicit, inside, last_number
from groupwise.grading.records import SPECIAL_TOKEN, Response

MAX_CHARACTERS = 65_536
_MAX_WORDS_BESIDE_BOX = 3

_HASHES = re.compile(r"####[ \t]*+([^\n]*+)")
_HASH_ANSWER = re.compile(r"(?:\*\*)?(?:[$\\(\[{+\u2212-]|\s)*+[\d.A-Za-z]")
_RUN_ON = re.compile(r"(\$?-?\d[\d,]*+(?:\.\d++)?%?(?:\s?/\s?\d++)?)[.,;:!?)]*+\s++(?:[A-Za-z(*]\S*+\s++){3}")
_NEXT_PROBLEM = re.compile(
    r"\n[ \t]*+(?:#+ *|\*\*)?(?:(?:Next |New )?(?:Question|Problem)(?: \d+)?|Q|Human|User|Instruction|问题|問題)"
    r"(?:\*\*)?\s?[:\uff1a]"
)
_HEADING = re.compile(r"(?:step|part|case|solution|answer|final|explanation|verification|check|note)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Extraction:
    """The answer as it was written; empty with a `reason` where there is none.

    where: the mark at which it stands: `box`, `hash`, `tag`, `phrase`, `statement`, `number`. flags: `multiple_boxes`
    for several different boxes apart, `box_list` for adjacent boxes that were joined to a list, `multiple_hashes`.
    """

    answer: str
    where: str = ""
    flags: tuple[str, ...] = ()
    reason: str = ""


def extract(response: Response, mode: AnswerMode, statement_after_box: bool = True) -> Extraction:
    """The answer of a response.

    Only what stands behind the reasoning counts, and of that the last 65,536 characters. statement_after_box: whether
    words such as "the final answer is 7" outrank a mark in front of them.
    """
    part = after_reasoning(response)
    if part is None:
        return Extraction("", reason="the reasoning is not closed")
    part = part[-MAX_CHARACTERS:]
    if "<" in part:
        part = SPECIAL_TOKEN.sub(" ", part)
    if mode == "boxed":
        return _boxed(part)[0]
    if mode == "gsm8k":
        return _hashed(part)[0]
    if mode == "answer_tag":
        return _tagged(part)[0]
    if mode == "last_number":
        return _last_number(part, response.truncated)
    found = _stated(part, response.truncated, statement_after_box)
    if mode == "lenient" and not found.answer and not found.where:
        return _last_number(part, response.truncated)
    return found


def _stated(part: str, truncated: bool, statement_after_box: bool) -> Extraction:
    """The answer at the last mark, else in words, else at the end; of a text that goes on with other problems, the
    first one's.
    """
    for other in _NEXT_PROBLEM.finditer(part):
        before = part[: other.start()]
        if (marked := _marked(before)[0]).answer or explicit(before, truncated=False)[0]:
            return marked if marked.answer else _stated(before, False, statement_after_box)
        break
    found, start = _marked(part)
    if found.where:
        if found.answer and statement_after_box:
            answer, _ = explicit(part[start:], truncated, strong=True)
            if answer and answer != found.answer:
                return Extraction(answer, "phrase", ("statement_after_mark",))
        return found
    answer, is_stated = explicit(part, truncated)
    if is_stated:
        return Extraction(answer, "phrase") if answer else found
    answer = closing(part, truncated)
    return Extraction(answer, "statement") if answer else found


def after_reasoning(response: Response) -> str | None:
    """The text behind the last `</think>`, or all of it where there is no reasoning; None inside an open `<think>`."""
    text = response.text
    opened, closed = text.rfind("<think>"), text.rfind("</think>")
    if opened > closed or (closed < 0 and response.opened):
        return None
    return text[closed + 8 :] if closed >= 0 else text


def _marked(part: str) -> tuple[Extraction, int]:
    """The answer at the last explicit mark of any kind; `where` is set where a mark has no usable answer."""
    boxed = _boxed(part)
    hashed = _hashed(part, _MAX_WORDS_BESIDE_BOX if boxed[0].answer else MAX_CHARACTERS)
    candidates = [found for found in (boxed, hashed, _tagged(part)) if found[1] >= 0]
    if not candidates:
        return Extraction("", reason="no mark of an answer"), -1
    answered = [found for found in candidates if found[0].answer]
    return max(answered or candidates, key=lambda found: found[1])


def _boxed(part: str) -> tuple[Extraction, int]:
    if "boxed" not in part and "fbox" not in part:
        return Extraction("", reason=r"no \boxed{}"), -1
    found = boxes_of(part)
    if not found.boxes:
        if found.unclosed:
            return Extraction("", "box", reason=r"a \boxed{ without its end"), 0
        return Extraction("", reason=r"no \boxed{}"), -1
    filled = tuple(box for box in found.boxes if box.content.strip()) or found.boxes
    answer, flags = joined(filled, part)
    return Extraction(answer, "box", flags, "" if answer else r"an empty \boxed{}"), filled[-1].end


def _hashed(part: str, max_words: int = MAX_CHARACTERS) -> tuple[Extraction, int]:
    """The first `####` line: what a base model writes behind it is the next problem, not this one.

    A longer line next to a box is a heading.
    """
    if "####" not in part:
        return Extraction("", reason="no ####"), -1
    first: re.Match[str] | None = None
    others: set[str] = set()
    for match in _HASHES.finditer(part):
        line = match[1].lstrip("# ")
        if not _HASH_ANSWER.match(line) or _HEADING.match(line) or line.count(" ") >= max_words:
            continue
        if first is None:
            first = match
        others.add(line.strip())
    if first is None:
        return Extraction("", reason="no answer behind ####"), -1
    answer = first[1].strip().removesuffix("<br>").strip("*").strip()
    run_on = _RUN_ON.match(answer)
    if run_on is not None:
        answer = run_on[1]
    return Extraction(inside(answer), "hash", ("multiple_hashes",) if len(others) > 1 else ()), first.end()


def _tagged(part: str) -> tuple[Extraction, int]:
    end = part.rfind("</answer>")
    if end < 0:
        return Extraction("", reason="no <answer></answer>"), -1
    start = part.rfind("<answer>", 0, end)
    if start < 0:
        return Extraction("", reason="</answer> without <answer>"), -1
    content = part[start + 8 : end].strip()
    if "boxed" in content or "fbox" in content:
        content = joined(boxes_of(content).boxes, content)[0] or content
    else:
        content = inside(content)
    return Extraction(content, "tag", reason="" if content else "an empty <answer></answer>"), end


def _last_number(part: str, truncated: bool) -> Extraction:
    answer, reason = last_number(part, truncated)
    return Extraction(answer, "number" if answer else "", reason=reason)
