"""Generated problems: exact answers, disjoint splits, and demonstrations with the habits that were asked for."""

import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from groupwise.data.arithmetic import (
    FAMILIES,
    Operation,
    arithmetic_exercise,
    arithmetic_problem,
    evaluate,
    held_out,
    within_range,
)
from groupwise.data.demonstrations import Habits, demonstration, demonstrations, write_demonstrations

LEGS = {"cow": 4, "pig": 4, "dog": 4, "hen": 2, "duck": 2, "ant": 6, "bee": 6, "spider": 8}
BOXED = re.compile(r"\\boxed\{(-?\d+)\}\.$")

# A pupil without bad habits.
CAREFUL = Habits(
    guess=0.0,
    wrong_guess=0.0,
    misread=dict.fromkeys(("chain", "brackets", "legs", "equation", "story"), 0.0),
    slip=dict.fromkeys(("+", "-", "*", "/"), 0.0),
    slip_easy=0.0,
    unfinished=0.0,
)


def answer_by_reading(family: str, question: str) -> int:
    """The answer from the text of the question alone, by other means than the generator's."""
    numbers = [int(digits) for digits in re.findall(r"\d+", question)]
    if family in ("chain", "brackets"):
        expression = re.sub(r"^(Compute|What is) |[.?]$", "", question)
        assert re.fullmatch(r"[\d +*()-]+", expression)
        return int(eval(expression, {"__builtins__": {}}))
    if family == "legs":
        animals = re.findall(r"\d+ ([a-z]+)s", question)
        return sum(count * LEGS[animal] for count, animal in zip(numbers, animals, strict=True))
    if family == "equation":
        found = re.fullmatch(r"Solve (.*) = (\d+) for ([xyn])\.", question)
        assert found
        left, right, name = found.groups()
        assert re.fullmatch(rf"[\d +*{name}-]+", left)
        solutions = [value for value in range(-200, 200) if eval(left, {name: value}) == int(right)]
        assert len(solutions) == 1
        return solutions[0]
    first, second, third = numbers
    start = first * second if "boxes" in question else first + (second if "buys" in question else -second)
    return start + (third if "finds" in question else -third)


def test_answers_follow_from_the_text() -> None:
    for index in range(3000):
        problem = arithmetic_problem(7, "train", index)
        family = problem.id.split("/")[2]
        assert family == FAMILIES[index % len(FAMILIES)]
        assert int(problem.answer) == answer_by_reading(family, problem.question), problem.question


def test_every_intermediate_result_has_at_most_two_digits() -> None:
    for index in range(1000):
        exercise = arithmetic_exercise(1, "demo", index)
        assert within_range(exercise.solution)
        assert evaluate(exercise.misreading) != exercise.answer


def test_a_problem_follows_from_seed_split_and_index() -> None:
    problem = arithmetic_problem(0, "eval", 17)
    assert problem == arithmetic_problem(0, "eval", 17)
    assert problem.id == "arithmetic/eval/legs/17"
    assert (problem.domain, problem.source) == ("math", "arithmetic:17")
    # A golden value: generated problems must not move between versions, or published numbers lose their meaning.
    assert arithmetic_problem(0, "train", 0).question == "Compute 24 - 5 - 9."
    others = {arithmetic_problem(seed, split, 17).question for seed in (0, 1) for split in ("train", "eval", "demo")}
    assert len(others) == 6


def test_no_question_of_the_evaluation_is_trained_on() -> None:
    evaluated = {arithmetic_problem(seed, "eval", index).question for seed in (0, 1) for index in range(3000)}
    trained = {
        arithmetic_problem(seed, split, index).question
        for seed in (0, 1)
        for split in ("train", "demo")
        for index in range(5000)
    }
    assert len(evaluated) > 2500
    assert not evaluated & trained
    assert all(held_out(question) for question in evaluated)
    assert not any(held_out(question) for question in trained)


def test_evaluate_and_range() -> None:
    expression = Operation("-", Operation("*", 3, 4), Operation("/", 10, 5))
    assert evaluate(expression) == 10
    assert within_range(expression)
    assert not within_range(Operation("-", 3, 4))
    assert not within_range(Operation("*", 10, 10))
    assert not within_range(Operation("/", 7, 2))
    assert not within_range(Operation("/", 7, 0))
    with pytest.raises(ArithmeticError, match="remainder"):
        evaluate(Operation("/", 7, 2))


def test_a_careful_demonstration_shows_right_steps_and_the_answer() -> None:
    for index in range(1000):
        exercise = arithmetic_exercise(0, "demo", index)
        completion = demonstration(exercise, CAREFUL, Random(index))
        found = re.fullmatch(r"<think>(.+)</think>The answer is \\boxed\{(\d+)\}\.", completion)
        assert found
        steps = found[1].split("; ")
        for step in steps:
            left, right = step.split(" = ")
            assert eval(left) == int(right)
        assert int(steps[-1].split(" = ")[1]) == int(found[2]) == exercise.answer


def test_habits_show_at_their_rates() -> None:
    always_guess = replace(CAREFUL, guess=1.0)
    half_wrong = replace(always_guess, wrong_guess=0.5)
    misreads = replace(CAREFUL, misread=dict.fromkeys(FAMILIES, 1.0))
    stops = replace(CAREFUL, unfinished=1.0)
    borrows = replace(CAREFUL, slip={**CAREFUL.slip, "-": 1.0})
    exercises = [arithmetic_exercise(0, "demo", index) for index in range(2000)]
    random = Random(0)

    def answers(habits: Habits) -> list[int]:
        texts = [demonstration(exercise, habits, random) for exercise in exercises]
        return [int(found[1]) for text in texts if (found := BOXED.search(text))]

    right = [exercise.answer for exercise in exercises]
    assert answers(always_guess) == right
    wrong = sum(a != b for a, b in zip(answers(half_wrong), right, strict=True))
    assert 0.45 < wrong / len(right) < 0.55
    assert answers(misreads) == [evaluate(exercise.misreading) for exercise in exercises]
    assert all(demonstration(exercise, stops, random).count(" = ") < 3 for exercise in exercises)
    slips = [
        (a, exercise.answer)
        for a, exercise in zip(answers(borrows), exercises, strict=True)
        if exercise.family == "chain" and a != exercise.answer
    ]
    assert slips
    assert all((a - b) % 10 == 0 for a, b in slips)


def test_written_demonstrations_are_what_the_generator_gives(tmp_path: Path) -> None:
    file = tmp_path / "demonstrations.jsonl"
    write_demonstrations(file, demonstrations(3, 50, CAREFUL))
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [(row["prompt"], row["completion"]) for row in rows] == list(demonstrations(3, 50, CAREFUL))
