"""Faults of the rewards."""

from tests.faults.fault import Fault

G = "tests/grading/"
CODE = (G + "code/test_code_compare.py", G + "code/test_grade_code.py")
MATH = (G + "math/test_core_policy.py", G + "math/test_core_pairs.py", G + "math/test_where_answers_stand.py")
PARTS = (G + "test_components.py", G + "test_grading.py")

FAULTS = (
    Fault(
        "a reward that failed is a zero",
        "grading/components/correctness.py",
        'return Score(float("nan"), "error", f"{verdict.status}',
        'return Score(0.0, "scored", f"{verdict.status}',
        PARTS,
    ),
    Fault(
        "an undecided answer is right",
        "grading/components/correctness.py",
        'return Score(verdict.score, "scored", detail)',
        'return Score(float(verdict.status != "wrong"), "scored", detail)',
        PARTS,
    ),
    Fault(
        "weights are applied twice",
        "grading/totals.py",
        "return rewarded(rewards_BK, options, names) * weights(options, names)",
        "return rewarded(rewards_BK, options, names) * weights(options, names) ** 2",
        PARTS,
    ),
    Fault(
        "a condition is met by half of it",
        "grading/totals.py",
        "full_BK = rewarded_BK == 1.0",
        "full_BK = rewarded_BK > 0.0",
        PARTS,
    ),
    Fault(
        "the gate withholds penalties",
        "grading/totals.py",
        "counts_BK = open_B1 | unknown_BK | (rewarded_BK * weights(options, names) <= 0.0)",
        "counts_BK = open_B1 | unknown_BK",
        PARTS,
    ),
    Fault(
        "a completion that could not be judged counts with its group",
        "grading/graded_group.py",
        "return np.flatnonzero(~self.dropped_G)",
        "return np.arange(len(self.dropped_G))",
        PARTS,
    ),
    Fault(
        "truncated answers are trained on though they are masked",
        "grading/graded_group.py",
        "return ~(self.dropped_G | (mask_truncated & cut_G))",
        "return ~self.dropped_G",
        ("tests/training/test_collect.py",),
    ),
    Fault(
        "the stop token is part of the answer",
        "grading/grader.py",
        "content = ids[:-1] if ended else ids",
        "content = ids",
        ("tests/training/test_collect.py", *PARTS),
    ),
    Fault(
        "the reasoning may hold the answer",
        "grading/math/extract.py",
        "return text[closed + 8 :] if closed >= 0 else text",
        "return text",
        MATH,
    ),
    Fault(
        "reasoning without an end has an answer",
        "grading/math/extract.py",
        "if opened > closed or (closed < 0 and response.opened):\n        return None",
        "if opened > closed:\n        return None",
        MATH,
    ),
    Fault(
        "answers that are not read count as undecided",
        "grading/math/math_grader.py",
        'return Judgement("wrong", "unread", reading.error)',
        'return Judgement("undecided", "unread", reading.error)',
        (G + "math/test_adversarial.py", G + "math/test_corpus.py"),
    ),
    Fault(
        "a computation is as good as its result",
        "grading/math/math_grader.py",
        'policy.unevaluated == "wrong"',
        'policy.unevaluated == "never"',
        (G + "math/test_unevaluated.py", *MATH),
    ),
    Fault(
        "True is 1",
        "grading/code/code_compare.py",
        "return type(value) in (int, float, complex, Fraction)",
        "return isinstance(value, (int, float, complex, Fraction))",
        CODE,
    ),
    Fault(
        "a list may be longer than the expected one",
        "grading/code/code_compare.py",
        "return len(value) == len(expected) and all(\n            _same(item, wanted, how, depth + 1)"
        " for item, wanted in zip(value, expected, strict=True)",
        "return all(\n            _same(item, wanted, how, depth + 1)"
        " for item, wanted in zip(value, expected, strict=False)",
        CODE,
    ),
    Fault(
        "missing results of a program pass",
        "grading/code/code_grader.py",
        "strict=True)\n    ]\n\n\ndef _call_of",
        "strict=True)\n        if result.status != 'missing'\n    ]\n\n\ndef _call_of",
        CODE,
    ),
    Fault(
        "only the first test of a program is run",
        "grading/code/code_grader.py",
        "used: tuple[StdinTest, ...] = tests.stdin[: options.max_tests or None]",
        "used: tuple[StdinTest, ...] = tests.stdin[:1]",
        CODE,
    ),
    Fault(
        "a failing exit code passes where the output is right",
        "grading/code/code_grader.py",
        "    if outcome.exit_code:\n",
        "    if outcome.exit_code and not outcome.stdout:\n",
        CODE,
    ),
    Fault(
        "the overlong penalty begins at the limit",
        "grading/components/overlong.py",
        "if buffer == 0 or tokens <= longest - buffer:",
        "if buffer == 0 or tokens <= longest:",
        (G + "test_overlong_penalty.py",),
    ),
    Fault(
        "wrong answers are rewarded for being short",
        "grading/components/group_relative_length.py",
        "value if correctness == 1.0 else min(0.0, value)",
        "value",
        (G + "test_length_language_repetition.py",),
    ),
    Fault(
        "repetition counts the tokens, not the n-grams",
        "grading/components/repetition.py",
        "count = len(ids) - ngram_tokens + 1\n",
        "count = len(ids)\n",
        (G + "test_length_language_repetition.py",),
    ),
    Fault(
        "text before the reasoning keeps the format",
        "grading/components/tagged_format.py",
        "    if pieces[0] == CONTENT:\n        return",
        "    if pieces[0] == CONTENT and False:\n        return",
        (G + "test_format_reward.py",),
    ),
    Fault(
        "an empty block keeps the format",
        "grading/components/tagged_format.py",
        "        if distance == 1:\n",
        "        if distance == 0:\n",
        (G + "test_format_reward.py",),
    ),
    Fault(
        "a token that a border cuts is left out of the span",
        "grading/functions/token_spans.py",
        "token_of[span.end - 1] + 1",
        "token_of[span.end - 1]",
        (G + "functions/test_spans.py",),
    ),
    Fault(
        "spans that overlap are taken",
        "grading/functions/returned.py",
        "        if start < before:\n",
        "        if start < 0:\n",
        (G + "functions/test_spans.py",),
    ),
    Fault(
        "a reward function is told the step before",
        "grading/functions/samples.py",
        "(step - 1) / (steps - 1)",
        "(step - 2) / (steps - 1)",
        (G + "functions/test_functions.py",),
    ),
    Fault(
        "an exception in the list of a batch is a 0",
        "grading/functions/returned.py",
        'results.append(["raised", f"{type(item).__name__}: {str(item)[:2000]}"])',
        "results.append(0.0)",
        (G + "functions/test_functions.py",),
    ),
    Fault(
        "scores of a function come in the order in which they arrive",
        "grading/functions/reward_function.py",
        "pairs = zip(calls, futures, strict=True)",
        "pairs = zip(calls, futures[::-1], strict=True)",
        (G + "functions/test_functions.py",),
    ),
)
