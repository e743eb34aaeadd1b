"""Problems of reasoning-gym: the same in every process, apart between the splits, and judged by what can judge them."""

import importlib
import importlib.util
import itertools
import json
import subprocess
import sys

import pytest

from groupwise.config.data import is_generated
from groupwise.data.reasoning_gym import ROW_KEY, GymSource, gym_source, held_out, score_of
from groupwise.data.reasoning_gym_graders import GRADERS, REFUSED
from groupwise.errors import DataError
from groupwise.grading.as_written import grade_literal, literal_number, same_literal
from groupwise.problem import Problem

needs_gym = pytest.mark.skipif(importlib.util.find_spec("reasoning_gym") is None, reason="reasoning-gym is missing")
# Their generators need more than a second for a problem, or they have no answer of their own.
SLOW = {"futoshiki", "zebra_puzzles", "sudoku", "arc_agi", "rubiks_cube", "intermediate_integration", "sokoban"}
NO_ANSWER = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}


def source(text: str) -> GymSource:
    return gym_source(f"reasoning_gym:{text}")


@needs_gym
def test_problem() -> None:
    gym = source("chain_sum?min_terms=3&max_terms=3&min_digits=1&max_digits=1")
    problem = gym.problem(0, "train", 5)
    assert problem.id == "chain_sum/train/5"
    assert problem.domain == "arithmetic"
    assert problem.source == "reasoning_gym:chain_sum:5"
    assert gym.size is None
    assert problem.grader == "literal"
    terms = problem.question.rsplit(":", 1)[-1].replace("=", " ").replace("?", " ").split()
    total, sign = 0, 1
    for term in terms:
        if term in "+-":
            sign = 1 if term == "+" else -1
        else:
            total += sign * int(term)
    assert int(problem.answer) == total
    assert len([term for term in terms if term not in "+-"]) == 3


@needs_gym
def test_the_question_itself_is_no_answer() -> None:
    problem = source("basic_arithmetic").problem(0, "train", 0)
    assert grade_literal(problem.answer, problem.answer).status == "correct"
    assert grade_literal(f"{problem.answer}+0", problem.answer).status == "wrong"


@needs_gym
def test_repeatable_and_apart() -> None:
    gym = source("gcd?max_value=100")
    train = [gym.problem(0, "train", n) for n in range(40)]
    again = [gym.problem(0, "train", n) for n in reversed(range(40))][::-1]
    held = [gym.problem(seed, "eval", n) for seed in (0, 1) for n in range(40)]
    assert train == again
    assert not {p.question for p in train} & {p.question for p in held}
    assert all(held_out(p.question) for p in held)
    assert len({p.question for p in train}) > 35
    other = [gym.problem(1, "train", n).question for n in range(40)]
    assert len({p.question for p in train} & set(other)) < 5


@needs_gym
@pytest.mark.slow
def test_the_same_in_a_process_with_other_hashes() -> None:
    names = ["ab", "acre", "course_schedule", "family_relationships", "graph_color", "syllogism", "word_ladder"]
    script = (
        "import json, sys\n"
        "from groupwise.data.reasoning_gym import gym_source\n"
        "sources = [gym_source('reasoning_gym:' + name) for name in sys.argv[1:]]\n"
        "print(json.dumps([source.problem(3, 'train', 700).question for source in sources]))\n"
    )
    said = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", script, *names],
                env={"PYTHONHASHSEED": seed, "MPLBACKEND": "Agg"},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert said[0] == [source(name).problem(3, "train", 700).question for name in names]


@needs_gym
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("countdwn", "reasoning-gym has no data set 'countdwn'. Did you mean countdown"),
        ("zzzz", "reasoning-gym has no data set 'zzzz'. It has ab, acre,"),
        ("chain_sum?min_term=3", "chain_sum has no setting 'min_term'. Did you mean 'min_terms'?"),
        ("chain_sum?seed=3", "the seed is that of the run"),
        ("chain_sum?size=0", "size is 0, which should be a whole number from 1"),
        ("chain_sum?min_terms=9&max_terms=2", "chain_sum refuses these settings: "),
        ("codeio", "cannot be trained on: its generator runs programs that a language model wrote"),
        ("puzzle24", "accepts any four numbers"),
        ("ransom_note", "could not be resumed"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        source(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"reasoning_gym:{text}")


@needs_gym
def test_size() -> None:
    assert source("chain_sum?size=12").size == 12


@needs_gym
def test_too_few_questions_to_hold_some_out() -> None:
    gym = source("count_primes?min_n=1&max_n=1")
    with pytest.raises(DataError, match="too few different questions"):
        (gym.problem(0, "train", 0), gym.problem(0, "eval", 0))


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(DataError, match=r"pip install 'groupwise\[reasoning-gym\]'"):
        source("chain_sum")


def test_other_sources() -> None:
    assert is_generated("reasoning_gym:gcd")
    assert not is_generated("problems.jsonl")
    assert Problem("p", (), "1").grader == ""


@needs_gym
def test_every_data_set_is_examined() -> None:
    known = set(importlib.import_module("reasoning_gym.factory").DATASETS)
    assert set(GRADERS) | set(REFUSED) >= known
    assert not set(GRADERS) & set(REFUSED)
    graders = list(GRADERS.values())
    assert (len(known), graders.count("literal"), graders.count("scorer"), len(REFUSED)) == (106, 68, 31, 7)


def agreement(name: str, count: int) -> None:
    """Own scorer and literal comparison on right answers, and on the answers to other problems."""
    gym = source(name)
    problems = [gym.problem(0, "train", n) for n in range(count)]
    for problem in problems:
        assert problem.question.strip()
        if name in NO_ANSWER:
            continue
        assert score_of(problem.row[ROW_KEY], problem.answer) == 1.0
        if gym.grader == "literal":
            assert grade_literal(problem.answer, problem.answer).status == "correct"
    if gym.grader != "literal" or name == "game_of_life_halting":
        return
    for one, other in itertools.pairwise(problems):
        full = score_of(one.row[ROW_KEY], other.answer) == 1.0
        close = literal_number(one.answer) is not None or name == "number_sorting"
        assert same_literal(other.answer, one.answer) == full or close


@needs_gym
@pytest.mark.parametrize("name", ["chain_sum", "syllogism", "rotate_matrix", "number_filtering", "jugs", "ab"])
def test_graders_agree(name: str) -> None:
    agreement(name, 10)


@needs_gym
@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(GRADERS))
def test_all_graders_agree(name: str) -> None:
    agreement(name, 3 if name in SLOW else 10)
