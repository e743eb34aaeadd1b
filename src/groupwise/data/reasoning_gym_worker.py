"""The scorers of reasoning-gym. Some evaluate the answer as a program: only for a process inside a sandbox."""

import ast
import importlib
import re
from collections.abc import Callable
from typing import Any

from groupwise.data.reasoning_gym import ROW_KEY, digest, entry_of, score_of

# Answers that these scorers hand to sympy's parser, which evaluates them, and the words that a right one may hold.
_SUM = re.compile(r"[0-9+\-*/() ]{1,200}")
_FORMULA = re.compile(r"[0-9A-Za-z+\-*/(). ]{1,500}")
_WORD = re.compile(r"[A-Za-z]+")
_FUNCTIONS = frozenset("exp log ln sqrt sin cos tan cot sec csc asin acos atan sinh cosh tanh pi".split())  # noqa: SIM905
_ATTRIBUTE = re.compile(r"\.\s*[A-Za-z]")
_TOWER = re.compile(r"\*\*[^*/+]*\*\*|[0-9]{13}")
_CALL = re.compile(r"(?<![A-Za-z])[A-Z]\s*\(")


class OtherProblemError(Exception):
    """The data set makes another problem here than it made for training."""

    failure_kind = "other_problem"


def load(_: Any) -> Callable[[dict[str, Any]], float]:
    """The handler of a worker: `row` of a problem and `answer` to the score."""
    # Its scorer would evaluate a board that is written as a list.
    vars(importlib.import_module("reasoning_gym.games.n_queens"))["eval"] = ast.literal_eval

    def score(payload: dict[str, Any]) -> float:
        place, answer = payload["row"][ROW_KEY], payload["answer"]
        if digest(entry_of(place)["question"]) != place["question_digest"]:
            raise OtherProblemError("this version of reasoning-gym, or its settings, makes another problem")
        return score_of(place, answer) if harmless(place["dataset"], answer) else 0.0

    return score


def harmless(dataset: str, answer: str) -> bool:
    """Whether an answer holds nothing but what a right one could, for the data sets whose scorers evaluate it."""
    if dataset == "countdown":
        return _SUM.fullmatch(answer) is not None and "**" not in answer and "//" not in answer
    if dataset in ("simple_integration", "intermediate_integration"):
        words = _WORD.findall(answer)
        return (
            _FORMULA.fullmatch(answer) is not None
            and all(len(word) == 1 or word in _FUNCTIONS for word in words)
            and not _ATTRIBUTE.search(answer)
            and not _CALL.search(answer)
            and not _TOWER.search(answer)
        )
    return True
