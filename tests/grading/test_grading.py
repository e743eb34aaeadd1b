"""Grading as training sees it: what failures do, domains apart, functions of the user's own, and no waiting in turn."""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from groupwise.completion import Completion, FinishReason, Prompt
from groupwise.config import TrainConfig
from groupwise.data.arithmetic import arithmetic_problem
from groupwise.errors import DataError
from groupwise.grading.graded_group import GradedGroup, GradingError, graded_group
from groupwise.grading.grader import Grader
from groupwise.grading.grader_pool import GraderPool
from groupwise.grading.records import Response, Score, Verdict
from groupwise.model.load import Policy, load_policy
from groupwise.model.score import Scores
from groupwise.objective.metric import Metric
from groupwise.problem import CallTest, CodeTests, Message, Problem
from groupwise.ranks import Ranks
from groupwise.training.advantages import advantage_metrics, advantages_of
from groupwise.training.collect import Collected, passes_filter
from groupwise.training.rollout_metrics import rollout_metrics
from groupwise.training.step_batch import step_batch
from groupwise.training.update_metrics import domain_metrics
from tests.support.episodes import TrainGroup, TrainSequence, batch_of

UNKNOWN = Score(math.nan, "error", "it broke")


def config_of(**sections: Any) -> TrainConfig:
    return TrainConfig.model_validate({"batch": {"samples_per_prompt": 4}, **sections})


def group_of(
    correctness: Sequence[float | None],
    config: TrainConfig,
    domain: str = "math",
    format_: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
) -> GradedGroup:
    completion = Completion(np.array([1, 2]), np.zeros(2, dtype=np.float32), "stop", 0)
    return graded_group(
        position=0,
        problem=Problem("p7", (Message("user", "?"),), "1", domain, "problems.jsonl:7"),
        prompt=Prompt(np.array([5]), "", opened=False),
        completions=(completion,) * len(correctness),
        texts_G=("",) * len(correctness),
        verdicts_G=(None,) * len(correctness),
        columns={
            "correctness": [UNKNOWN if value is None else Score(value, "scored") for value in correctness],
            "format": [Score(value, "scored") for value in format_[: len(correctness)]],
        },
        config=config,
    )


# What a failure does


def test_a_dropped_sample_is_compared_with_nothing_and_trains_nothing() -> None:
    config = config_of(grading={"on_error": "drop_sample"})
    group = group_of([1.0, None, 0.0, 0.0], config)
    assert not group.failed
    assert passes_filter(group, config)
    advantages = advantages_of([group, group_of([1.0, 0.0, 0.0, 1.0], config)], config, Ranks())
    # The mean of the three others is 1/3.
    np.testing.assert_allclose(advantages, [[2 / 3, 0, -1 / 3, -1 / 3], [0.5, -0.5, -0.5, 0.5]], rtol=1e-15)
    assert step_batch([group], advantages[:1], config).trained_E.tolist() == [True, False, True, True]
    squares = advantage_metrics([group], advantages[:1])["advantage/square_mean"]
    assert squares.weight == 3
    assert squares.value == pytest.approx((4 / 9 + 2 / 9) / 3)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        # Deviation of [1, 0, 0] by two: sqrt(1/3).
        ({"type": "group", "scale": "group_std"}, np.array([2 / 3, -1 / 3, -1 / 3]) / (math.sqrt(1 / 3) + 1e-4)),
        ({"type": "group", "baseline": "leave_one_out"}, [1.0, -0.5, -0.5]),
        ({"type": "max_rl"}, [2.0, -1.0, -1.0]),
        ({"type": "pass_at_k", "k": 2}, None),
        ({"type": "group", "scale": "batch_std"}, np.array([2 / 3, -1 / 3, -1 / 3]) / (math.sqrt(1 / 3) + 1e-4)),
    ],
)
def test_the_advantages_beside_a_dropped_sample_are_those_of_a_smaller_group(
    estimator: dict[str, Any], expected: Any
) -> None:
    config = config_of(advantage={"estimator": estimator}, grading={"on_error": "drop_sample"})
    small = TrainConfig.model_validate({"batch": {"samples_per_prompt": 3}, "advantage": {"estimator": estimator}})
    advantages_G = advantages_of([group_of([1.0, None, 0.0, 0.0], config)], config, Ranks())[0]
    alone_G = advantages_of([group_of([1.0, 0.0, 0.0], small)], small, Ranks())[0]
    np.testing.assert_array_equal(advantages_G[[0, 2, 3]], alone_G)
    assert advantages_G[1] == 0
    if expected is not None:
        np.testing.assert_allclose(alone_G, expected, rtol=1e-12)


def test_gdpo_weighs_each_group_by_the_table_of_its_domain() -> None:
    config = config_of(
        advantage={"estimator": {"type": "gdpo", "std_epsilon": 1e-12}},
        rewards={"format": {"weight": 1.0}},
        domains={"code": {"rewards": {"format": {"weight": 0.0}}}},
    )
    right, kept = [1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]
    groups = [group_of(right, config, format_=kept), group_of(right, config, "code", format_=kept)]
    advantages = advantages_of(groups, config, Ranks())
    # Both components have the deviation sqrt(1/3); their normalised sums are whitened over all eight.
    unit = 0.5 / math.sqrt(1 / 3)
    sums = np.array([[2 * unit, 0, 0, -2 * unit], [unit, unit, -unit, -unit]])
    np.testing.assert_allclose(advantages, sums / sums.std(ddof=1), rtol=1e-9)


def test_too_few_judged_samples_fail_the_group() -> None:
    config = config_of(grading={"on_error": "drop_sample"})
    assert group_of([1.0, None, None, None], config).failed
    assert not group_of([1.0, None, None, 0.0], config).failed
    by_three = config_of(grading={"on_error": "drop_sample"}, advantage={"estimator": {"type": "pass_at_k", "k": 3}})
    assert group_of([1.0, None, None, 0.0], by_three).failed


def test_a_failure_drops_the_group_unless_told_otherwise() -> None:
    group = group_of([1.0, None, 0.0, 0.0], config_of())
    assert group.failed
    (failure,) = group.failures()
    assert failure == {
        "problem": "p7",
        "source": "problems.jsonl:7",
        "sample": 1,
        "component": "correctness",
        "reason": "it broke",
    }


def test_a_failure_can_stop_the_run_and_names_problem_and_reason() -> None:
    with pytest.raises(GradingError, match=r"'correctness'.*problems\.jsonl:7.*it broke"):
        group_of([1.0, None, 0.0, 0.0], config_of(grading={"on_error": "stop"}))


@pytest.mark.parametrize(
    ("status", "option", "value", "scored"),
    [
        ("correct", "wrong", 1.0, "scored"),
        ("wrong", "wrong", 0.0, "scored"),
        ("no_answer", "wrong", 0.0, "no_answer"),
        ("undecided", "wrong", 0.0, "scored"),
        ("undecided", "drop", math.nan, "error"),
        ("timeout", "wrong", 0.0, "scored"),
        ("timeout", "drop", math.nan, "error"),
        ("gold_bad", "wrong", math.nan, "error"),
        ("error", "wrong", math.nan, "error"),
    ],
)
def test_what_a_verdict_is_paid(status: Any, option: str, value: float, scored: str) -> None:
    options = config_of(rewards={"correctness": {"undecided": option}}).rewards.correctness
    verdict = Verdict(status, 1.0 if status == "correct" else 0.0)
    score = options.score_verdict(verdict)
    assert score.status == scored
    assert score.value == value or (math.isnan(value) and math.isnan(score.value))


# Domains


def test_domains_are_paid_and_measured_apart() -> None:
    config = config_of(
        rewards={"format": {"weight": 0.2}},
        domains={"code": {"kl_coefficient": 0.01, "rewards": {"format": {"weight": 0.0}}}},
    )
    numbers = group_of([1.0, 0.0, 0.0, 0.0], config, format_=[1.0, 1.0, 0.0, 0.0])
    code = group_of([1.0, 1.0, 0.0, 0.0], config, "code", format_=[1.0, 1.0, 1.0, 0.0])
    assert numbers.totals_G.tolist() == [1.2, 0.2, 0.0, 0.0]
    assert code.totals_G.tolist() == [1.0, 1.0, 0.0, 0.0]
    coefficients_E = step_batch([numbers, code], np.zeros((2, 4)), config).kl_coefficient_E
    assert coefficients_E.tolist() == pytest.approx([0.0] * 4 + [0.01] * 4)
    metrics = rollout_metrics(Collected([numbers], [numbers, code], 2), config, ("code", "math"))
    assert metrics["domain/math/reward/correctness/mean"] == Metric(0.25, "mean", 4)
    assert metrics["domain/code/reward/correctness/mean"] == Metric(0.5, "mean", 4)
    assert metrics["domain/code/reward/format/mean"] == Metric(0.75, "mean", 4)
    assert metrics["domain/code/reward/total/mean"] == Metric(0.5, "mean", 4)
    assert metrics["domain/code/groups/admitted"] == Metric(0, "sum")
    assert metrics["domain/math/groups/admitted"] == Metric(1, "sum")
    assert not any(
        name.startswith("domain/") for name in rollout_metrics(Collected([], [numbers], 1), config, ("math",))
    )


# The real grader with reward functions of the user's own


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy("bundled")


def completion_of(policy: Policy, text: str, finish_reason: FinishReason = "stop") -> Completion:
    ids = np.asarray(policy.tokenizer.encode(text, add_special_tokens=False), dtype=np.int64)
    return Completion(ids, np.zeros(len(ids), dtype=np.float32), finish_reason, 0)


def graded_by(
    policy: Policy,
    config: TrainConfig,
    texts: Sequence[str],
    problem: Problem | None = None,
    finish_reason: FinishReason = "stop",
) -> GradedGroup:
    problem = problem or Problem("p", (Message("user", "3+4"),), "7", row={"level": 3})
    completions = [completion_of(policy, text, finish_reason) for text in texts]
    with Grader(config, policy.tokenizer, policy.think_ids) as grader:
        grader.check([problem], policy.tokenizer.encode)
        return grader.grade(0, problem, Prompt(np.array([5]), "", opened=False), completions, policy.stop_ids)


def functions_of(tmp_path: Path, code: str, **options: Any) -> dict[str, Any]:
    file = tmp_path / "rewards.py"
    file.write_text(code, encoding="utf-8")
    return {"mine": {"path": f"{file}:score", **options}}


def test_a_function_gets_what_it_names_and_is_paid_by_its_weight(policy: Policy, tmp_path: Path) -> None:
    code = "def score(text, raw_text, row, finish_reason, ids):\n    return row['level'] + len(raw_text) - len(text)\n"
    config = config_of(rewards={"functions": functions_of(tmp_path, code, weight=0.5)})
    group = graded_by(policy, config, [r"\boxed{7}<|im_end|>", r"\boxed{8}<|im_start|><|im_end|>"])
    assert group.names_K == ("correctness", "format", "mine")
    # The stop token is no part of either text, any other special token is part of the raw one.
    assert group.rewards_GK[:, 2].tolist() == [3, 3 + len("<|im_start|>")]
    assert group.totals_G.tolist() == [1 + 1.5, 0 + 1.5 + 0.5 * len("<|im_start|>")]


@pytest.mark.parametrize("keep", [False, True])
def test_a_text_that_stops_is_cut_or_kept_and_what_is_behind_it_never_counts(
    policy: Policy, tmp_path: Path, keep: bool
) -> None:
    code = "def score(text, raw_text, ids):\n    return len(raw_text) + 100 * len(text) + 10000 * len(ids)\n"
    functions = {"functions": functions_of(tmp_path, code)}
    config = config_of(sampling={"stop": ["</x>", "END"], "keep_stop": keep}, rewards=functions)
    # The last token may bring more than the text; `<|im_start|>` is a token that only the raw text shows.
    texts = ["<|im_start|>7 END", "<|im_start|>7 </x>", "7 ENDx", "7 <|im_end|>"]
    group = graded_by(policy, config, texts)
    assert list(group.texts_G) == (
        ["<|im_start|>7 END", "<|im_start|>7 </x>", "7 END", "7 "] if keep else ["<|im_start|>7 "] * 2 + ["7 "] * 2
    )
    special = len("<|im_start|>")
    for row, (raw, reward) in enumerate(zip(group.texts_G, group.rewards_GK[:, 2], strict=True)):
        clean = len(raw) - (special if row < 2 else 0)
        needed = next(n for n in range(99) if len(decoded(policy, texts[row], n)) >= len(raw))
        assert reward == len(raw) + 100 * clean + 10000 * needed
    (untouched,) = graded_by(policy, config, ["7 END 8"], finish_reason="length").texts_G
    assert untouched == "7 END 8"


def decoded(policy: Policy, text: str, tokens: int) -> str:
    """The text of the first tokens."""
    ids = policy.tokenizer.encode(text, add_special_tokens=False)[:tokens]
    return str(policy.tokenizer.decode(ids))


def test_a_function_can_say_what_is_right(policy: Policy, tmp_path: Path) -> None:
    code = "def score(text):\n    return [float('8' in one) for one in text]\n"
    config = config_of(
        rewards={"functions": functions_of(tmp_path, code, call="batch"), "correctness": {"grader": "mine"}}
    )
    group = graded_by(policy, config, [r"\boxed{7}", r"\boxed{8}", "88", ""])
    assert group.names_K == ("correctness", "format")
    assert group.kept_right.tolist() == [False, True, True, False]
    assert group.verdicts_G == (None,) * 4


BROKEN = "def score(text):\n    if '8' in text:\n        raise ValueError('no eights')\n    return 1.0\n"


@pytest.mark.parametrize("on_error", ["drop_sample", "drop_group", "stop"])
def test_a_function_that_raises_does_what_its_option_says(policy: Policy, tmp_path: Path, on_error: str) -> None:
    config = config_of(rewards={"functions": functions_of(tmp_path, BROKEN, on_error=on_error)})
    texts = [r"\boxed{7}", r"\boxed{8}", r"\boxed{9}"]
    if on_error == "stop":
        with pytest.raises(GradingError, match=r"'mine'.*no eights"):
            graded_by(policy, config, texts)
        return
    group = graded_by(policy, config, texts)
    assert group.failed == (on_error == "drop_group")
    assert group.dropped_G.tolist() == ([False, True, False] if on_error == "drop_sample" else [False] * 3)
    (failure,) = group.failures()
    assert (failure["problem"], failure["sample"], failure["component"]) == ("p", 1, "mine")
    assert "ValueError: no eights" in failure["reason"]


def test_a_function_that_fails_on_a_dry_run_is_refused_before_training(policy: Policy, tmp_path: Path) -> None:
    config = config_of(rewards={"functions": functions_of(tmp_path, "def score(text):\n    return 'good'\n")})
    with pytest.raises(DataError, match="mine"):
        graded_by(policy, config, ["7"])


def test_groups_wait_for_the_slowest_function_and_not_for_their_sum(policy: Policy, tmp_path: Path) -> None:
    code = "import time\ndef score(text):\n    time.sleep(0.5)\n    return 1.0\n"
    config = config_of(rewards={"functions": functions_of(tmp_path, code)}, grading={"workers": 8})
    problem = Problem("p", (Message("user", "3+4"),), "7")
    prompt = Prompt(np.array([5]), "", opened=False)
    completions = [completion_of(policy, r"\boxed{7}")] * 4
    with Grader(config, policy.tokenizer, policy.think_ids) as grader:
        grader.check([problem], policy.tokenizer.encode)
        # All eight processes are up.
        for pending in [grader.submit(i, problem, prompt, completions, policy.stop_ids) for i in range(4)]:
            grader.result(pending)
        start = time.monotonic()
        for pending in [grader.submit(i, problem, prompt, completions, policy.stop_ids) for i in range(4)]:
            grader.result(pending)
        elapsed = time.monotonic() - start
    # Sixteen calls of 0.5 s by eight workers take 1 s, one after the other 8 s.
    assert elapsed < 4


# Programs

DOUBLE = CodeTests(calls=(CallTest((3,), 6), CallTest((-2,), -4)), entry_point="f")


def test_programs_are_judged_by_their_tests(policy: Policy) -> None:
    problem = Problem("p", (Message("user", "double"),), "", "code", tests=DOUBLE)
    texts = [
        "```python\ndef f(n): return 2*n\n```",
        "```python\ndef f(n): return n*n\n```",
        "2*n",
        "```python\ndef f(n): return 6\n```",
    ]
    group = graded_by(policy, config_of(), texts, problem)
    assert group.rewards_GK[:, 0].tolist() == [1, 0, 0, 0]
    assert [verdict and verdict.status for verdict in group.verdicts_G] == ["correct", "wrong", "no_answer", "wrong"]
    shared = graded_by(policy, config_of(rewards={"correctness": {"code": {"credit": "fraction"}}}), texts, problem)
    assert shared.rewards_GK[:, 0].tolist() == [1, 0, 0, 0.5]


def test_a_problem_without_tests_is_not_for_the_grader_of_programs(policy: Policy) -> None:
    config = config_of(rewards={"correctness": {"grader": "code"}})
    with pytest.raises(DataError, match="no tests"):
        graded_by(policy, config, ["7"])
    with GraderPool(config) as pool:
        verdict = pool.verdict(Problem("p", (), "7"), Response((), "7"), config.rewards.correctness)
    assert isinstance(verdict, Verdict)
    assert verdict.status == "gold_bad"


def test_a_question_that_is_copied_is_no_answer_to_generated_arithmetic(policy: Policy) -> None:
    problem = arithmetic_problem(0, "train", 0)
    copied = problem.question.removeprefix("Compute ").rstrip(".")
    group = graded_by(policy, config_of(), [rf"\boxed{{{copied}}}", rf"\boxed{{{problem.answer}}}"], problem)
    assert copied != problem.answer
    assert group.kept_right.tolist() == [False, True]
    # The same question from a file is judged by the options.
    plain = Problem("p", problem.messages, problem.answer)
    lenient = config_of(rewards={"correctness": {"math": {"unevaluated": "equal"}}})
    assert graded_by(policy, config_of(), [rf"\boxed{{{copied}}}"], plain).kept_right.tolist() == [False]
    assert graded_by(policy, lenient, [rf"\boxed{{{copied}}}"], plain).kept_right.tolist() == [True]


def test_a_division_that_is_copied_is_no_answer_either(policy: Policy) -> None:
    division = Problem("p", (Message("user", "Compute 56 / 8."),), "7", grader="number")
    texts = [r"\boxed{56/8}", r"\boxed{\frac{56}{8}}", r"\boxed{7}"]
    assert graded_by(policy, config_of(), texts, division).kept_right.tolist() == [False, False, True]


def test_each_domain_is_measured_on_its_own_trained_tokens() -> None:
    """Two domains of two answers with 2 and 1 tokens; the first answer of numbers is not trained, code has no KL."""
    groups = [
        TrainGroup(np.array([1]), (sequence(2, trained=False), sequence(1)), kl_coefficient=0.5, domain="math"),
        TrainGroup(np.array([1]), (sequence(2), sequence(1)), domain="code"),
    ]
    batch = batch_of(groups)
    new_N, entropies_N = torch.tensor([-1.0, -1, -1, -2, -2, -2]), torch.tensor([9.0, 9, 1, 2, 3, 4])
    metrics = domain_metrics(batch, Scores(new_N, entropies_N, entropies_N))
    entropies = {name: metrics[f"domain/{name}/policy/entropy_at_temperature_1"] for name in ("math", "code")}
    assert {name: (float(m.value), float(m.weight)) for name, m in entropies.items()} == {
        "math": (1, 1),
        "code": (3, 3),
    }
    # The reference says -1.5 where the policy says -1.
    assert float(metrics["domain/math/policy/kl_ref_k1"].value) == 0.5
    assert "domain/code/policy/kl_ref_k1" not in metrics


def sequence(tokens: int, trained: bool = True) -> TrainSequence:
    logps = np.full(tokens, -1.0, dtype=np.float32)
    return TrainSequence(np.arange(tokens), 1.0, logps, logps, trained=trained, ref_logps=logps - 0.5)
