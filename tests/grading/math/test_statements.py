"""The table of final statements: each example states what the table says, in its own kind."""

import pytest

from groupwise.grading.math.extract import extract
from groupwise.grading.math.statements import CLOSING, EXPLICIT, Closing, Statement
from groupwise.grading.records import Response

STATED = [(kind.kind, text) for kind in EXPLICIT for text in kind.examples]
STATED += [(kind.kind, text) for kind in CLOSING for text in kind.examples]


@pytest.mark.parametrize(("kind", "example"), STATED)
def test_an_example_states_42_or_d(kind: str, example: str) -> None:
    assert extract(Response((), example), "marked").answer.strip("()$*. 个") in ("42", "D"), kind
    assert not extract(Response((), example, truncated=True), "boxed").answer


@pytest.mark.parametrize("kind", CLOSING, ids=lambda kind: kind.kind)
def test_a_last_line_is_found_by_its_own_rule(kind: Closing) -> None:
    for example in kind.examples:
        assert kind.find(example) or example.startswith(r"\["), example


@pytest.mark.parametrize("kind", EXPLICIT, ids=lambda kind: kind.kind)
def test_words_are_found_by_their_own_pattern(kind: Statement) -> None:
    for example in kind.examples:
        assert kind.pattern.search(example), example


def test_the_statement_behind_a_box_is_marked_as_such() -> None:
    found = extract(Response((), r"\boxed{3}. The answer is 42."), "marked")
    assert (found.answer, found.flags) == ("42", ("statement_after_mark",))
    assert extract(Response((), r"\boxed{3}. The answer is 42."), "marked", statement_after_box=False).answer == "3"
    assert extract(Response((), r"\boxed{3}. The answer is 42."), "boxed").answer == "3"
