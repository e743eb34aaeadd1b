"""Final statements: how a text without a box says what its answer is, as one table, and how the answer is read there.

`EXPLICIT` says in words that this is the answer; the last one in a text counts. Where there is none, the end of the
text is looked at as `CLOSING` lists it, in that order. What hedges, asks or states several values is no answer.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from groupwise.grading.math.last_line import bold_value, calculation, closing_formula, lone_value, one_number
from groupwise.grading.math.wording import LETTER, pattern


class Statement(NamedTuple):
    """One kind of final statement. strong: it says so of the answer, and outranks a box in front of it.

    examples: each states 42 or D.
    """

    kind: str
    pattern: re.Pattern[str]
    examples: tuple[str, ...]
    strong: bool = True


class Closing(NamedTuple):
    """One way in which the end of a text is its answer. find: the answer in the last line or sentence, or nothing."""

    kind: str
    find: Callable[[str], str]
    examples: tuple[str, ...]


_IS = (
    r"(?:\*\*)?\s*+(?:(?:is|are|was|equals?|becomes?|would be|should be|must be|will be|has to be|lies at|stands at"
    r"|(?:comes?|works?|turns?) out (?:to be|to|as|at))(?:\s*+(?:[:=]|->|\u2192))?(?![A-Za-z])|[:=\uff1a]|->|\u2192)"
    r"\s*+(?:\*\*)?\s*+[:\uff1a]?"
)
_OF = r"(?:\s++(?:to|of|for|in|after)\s++[^.:\n]{1,80}?)?"
_CHINESE_IS = r"\s*+(?:應?应?该?該?(?:是|为|為|爲|等于|等於|选|選)\s*+[:\uff1a]?|[:\uff1a])"

EXPLICIT: tuple[Statement, ...] = (
    Statement(
        "the answer",
        pattern(rf"\b(?:answer|ans|final value|final result)\b\.?{_OF}{_IS}|\bfinal answer\b(?=\s++[$\\\d])"),
        ("The answer is 42.", "Ans: 42", "**Answer:** 42", "The answer comes out to 42.", "Answer is -> 42",
         "Answer: The value is 42.", "Answer: 42 (since 6*7=42)", "Answer: D, not B", "The answer is forty-two (42).",
         "The final answer is:\n\\[\n42\n\\]"),
    ),
    Statement("the result", pattern(rf"\b(?:result|solution(?: set)?)\b{_OF}{_IS}"), ("The result is 42.",), False),
    Statement(
        "a heading",
        pattern(r"(?:\*\*|#[ \t]*+)(?:the )?(?:final )?answer:?(?:\*\*)?:?[ \t]*+\n\s*+"),
        ("## Final Answer\n42", "**Final Answer**\n\\[\n42\n\\]"),
    ),
    Statement(
        "the option",
        pattern(
            rf"\b(?:(?:correct|right|best|proper|true)\s++(?:option|choice|statement|letter)|option|choice){_OF}{_IS}"
            rf"|\bI(?:'d| would| will|'ll)?(?: have to)? (?:choose|pick|select|chose|go with|vote for)\s*+:?"
            rf"(?=\s*+\W*(?:option |choice )?{LETTER})"
        ),
        ("The correct option is D.", "The correct choice is (D)", "I choose D."),
    ),
    Statement(
        "said of it",
        re.compile(
            rf"(?:\b[Oo]ption|\b[Cc]hoice)?\s*+(?P<letter>{LETTER})(?:\*\*)?\s++is\s++(?:the\s++)?"
            r"(?:correct|right|answer|best)"
            r"|(?P<value>(?<![\w.,])-?\$?\d[\d,]*+(?:\.\d++)?%?)(?:\*\*)?\s++is\s++(?:the|our|my)"
            r"\s++(?:final\s++|correct\s++)?answer"
        ),
        ("Option D is correct.", "(D) is the correct answer.", "42 is the final answer."),
    ),
    Statement(
        "in Chinese",
        pattern(
            r"(?:答案|结果|結果)是?應?应?该?該?\s*+】?" + _CHINESE_IS + "?(?=\\s*+[^\\s的\uff0c。])"
            r"|(?<![一-鿿])【?答\s*+(?:】|[:\uff1a])"
            r"|(?:正确|正確|符合题意|符合題意)?的?(?:选项|選項)" + _CHINESE_IS +
            r"|(?:选|選)(?:择|擇)?(?:项|項)?\s*+[:\uff1a是为為]?(?=\s*+\W?[A-H]{1,6}(?![A-Za-z]))"
        ),
        ("答案是\uff1a42", "故答案为\uff1a42", "正確答案為 42",
         "答\uff1a一共 42 个。", "【答案】42", "故选\uff1aD", "故選 D。",
         "我認為應該選 D", "因此正确选项是D。", "答案选D"),
    ),
    Statement(
        "in other languages",
        pattern(
            r"\bréponse(?: finale)?\s*+(?:est\b|:)|\b(?:endgültige )?antwort(?: ist| lautet|:)"
            r"|\brespuesta(?: final| correcta)?\s*+(?:es\b|:)"
            r"|\brisposta(?: finale)?\s*+(?:è|:)|\bresposta(?: final)?\s*+(?:é|:)"
            r"|\b(?:ответ)(?:\s*+[:\u2014-]|\s++равен)|(?:答え|解答)\s*+[は:\uff1a]"
            r"|(?:정답|답)\s*+[은:]"
        ),
        ("La réponse est 42.", "Die Antwort ist 42.", "La respuesta es 42.", "Ответ: 42", "答えは 42"),
    ),
)  # fmt: skip

CLOSING: tuple[Closing, ...] = (
    Closing("a line of its own", lone_value, ("**42**", "$42$", "\\[42\\]", "(D)", "= **42**.", "Therefore, D.")),
    Closing(
        "one bold value", bold_value, ("So there are **42**.", "It takes her **42** minutes.", "The cost is **$42**.")
    ),
    Closing("a calculation", calculation, ("Total = 40 + 2 = 42", "His profit is $52 - $10 = $42.")),
    Closing("a formula", closing_formula, ("So the length is $42$.", "Hence we get \\(42\\).")),
    Closing("one number", one_number, ("She has 42 left.", "So, 42 apples are left.", "一共有 42 个。")),
)
