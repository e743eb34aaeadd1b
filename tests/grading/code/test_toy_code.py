"""Generated problems about one-line functions."""

import ast
import json
from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer

import groupwise.bundled
from groupwise.data.arithmetic import held_out
from groupwise.data.demonstrations import write_demonstrations
from groupwise.data.toy_code import CALLS, FAMILIES, toy_code_exercise, toy_code_problem, toy_code_tests
from groupwise.data.toy_code_demonstrations import (
    CARELESS,
    CodeHabits,
    toy_code_answer,
    toy_code_demonstration,
    toy_code_demonstrations,
)
from groupwise.grading.code.code_compare import same_result
from groupwise.grading.code.code_grader import grade_code
from groupwise.grading.code.language.interpreter import Interpreter
from groupwise.grading.components.correctness import CodeOptions
from groupwise.grading.records import Response
from tests.grading.code.sandboxes import FakeSandbox, returned

CAREFUL = CodeHabits(guess=0.0, wrong_guess=0.0, misread=0.0, slip=0.0)


def share_passed(expression: str, index: int) -> float:
    """The share of the calls of train problem `index` that an expression of n answers."""
    tests = toy_code_tests(toy_code_exercise(0, "train", index))
    tree = ast.parse(expression, mode="eval").body
    return sum(same_result(Interpreter().evaluate(tree, {"n": test.args[0]}), test) for test in tests.calls) / len(
        tests.calls
    )


def test_the_solution_passes_and_the_wrong_ways_do_not() -> None:
    for index in range(600):
        exercise = toy_code_exercise(0, "train", index)
        assert len(set(exercise.inputs)) == CALLS
        assert share_passed(exercise.solution, index) == 1.0
        assert share_passed(exercise.misreading, index) < 1.0
        assert share_passed(exercise.slip, index) < 1.0


def test_some_questions_by_hand() -> None:
    """What each question asks for, worked out from its words alone."""
    seen = set()
    for index in range(300):
        exercise = toy_code_exercise(3, "train", index)
        words = exercise.question.removeprefix("Write f(n) that returns ").removeprefix("Let f(n) return ")[:-1]
        numbers = [int(word) for word in "".join(c if c.isdigit() else " " for c in words).split()]
        for n in exercise.inputs:
            match words.replace(",", "").split():
                case [_, "times", "n", "plus", _]:
                    expected = numbers[0] * n + numbers[1]
                case [_, "less", "than", _, "times", "n"]:
                    expected = numbers[1] * n - numbers[0]
                case ["the", "sum", "of", "n", "and", _, "times", _]:
                    expected = (n + numbers[0]) * numbers[1]
                case [_, "less", "than", "n"]:
                    expected = n - numbers[0]
                case [_, "with", "n", "taken", "away"]:
                    expected = numbers[0] - n
                case ["n", "but", "at", "most", _]:
                    expected = numbers[0] if n > numbers[0] else n
                case ["the", "larger", "of", *_]:
                    expected = n if n > numbers[0] else numbers[0]
                case ["how", "far", *_]:
                    expected = max(n - numbers[0], numbers[0] - n)
                case ["the", "remainder", *_]:
                    expected = n - n // numbers[0] * numbers[0]
                case _:
                    continue
            seen.add(" ".join(word for word in words.split() if not word.strip(",").isdigit()))
            assert exercise.function(n) == expected
    assert len(seen) == 9


def test_problems_follow_from_seed_split_and_index() -> None:
    first, again = toy_code_problem(5, "train", 17), toy_code_problem(5, "train", 17)
    assert first == again
    assert first.id == f"toy_code/train/{FAMILIES[17 % len(FAMILIES)]}/17"
    assert (first.domain, first.answer, first.source) == ("code", "", "toy_code:17")
    assert first.tests is not None
    assert len(first.tests.calls) == CALLS
    assert toy_code_problem(6, "train", 17).question != first.question


def test_the_evaluation_shares_no_question() -> None:
    train = {toy_code_problem(0, "train", index).question for index in range(1000)}
    evaluation = {toy_code_problem(1, "eval", index).question for index in range(300)}
    assert not train & evaluation
    assert all(map(held_out, evaluation))
    assert len(train) > 800


def test_an_answer_is_graded() -> None:
    problem = toy_code_problem(0, "eval", 0)
    assert problem.tests is not None
    right = FakeSandbox(results=returned(*(test.expected for test in problem.tests.calls)))
    response = Response((), toy_code_demonstration(toy_code_exercise(0, "eval", 0), CAREFUL, Random(0)))
    verdict = grade_code(response, problem.tests, right.as_sandbox(), CodeOptions())
    assert verdict.status == "correct"
    assert right.programs == [toy_code_answer(toy_code_exercise(0, "eval", 0).solution).split("\n")[1]]


def test_the_pupil_is_as_careless_as_it_should_be() -> None:
    right = thought = 0
    count = 3000
    for index, (_, completion) in enumerate(toy_code_demonstrations(0, count, CARELESS)):
        exercise = toy_code_exercise(0, "demo", index)
        thought += completion.startswith("<think>")
        right += completion.endswith(toy_code_answer(exercise.solution))
    assert thought / count == pytest.approx(1 - CARELESS.guess, abs=0.03)
    careful = (1 - CARELESS.misread) * (1 - CARELESS.slip)
    expected = CARELESS.guess * (1 - CARELESS.wrong_guess) + (1 - CARELESS.guess) * careful
    assert right / count == pytest.approx(expected, abs=0.03)


def test_demonstrations_are_written_as_prompt_and_completion(tmp_path: Path) -> None:
    write_demonstrations(tmp_path / "a.jsonl", toy_code_demonstrations(0, 50, CARELESS))
    write_demonstrations(tmp_path / "b.jsonl", toy_code_demonstrations(0, 50, CARELESS))
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [tuple(line.values()) for line in lines] == list(toy_code_demonstrations(0, 50, CARELESS))
    assert {tuple(line) for line in lines} == {("prompt", "completion")}


def test_completions_are_short_for_the_bundled_tokenizer() -> None:
    folder = Path(str(groupwise.bundled.__file__)).parent / "model"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    lengths = [
        len(tokenizer.encode(completion, add_special_tokens=False).ids)
        for _, completion in toy_code_demonstrations(0, 500, CARELESS)
    ]
    assert max(lengths) <= 50
