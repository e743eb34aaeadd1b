"""The checks of reward tables, domains, grading and sources: each names its keys, its reason and a remedy."""

from typing import Any

import pytest

from groupwise.config import TrainConfig
from groupwise.config.checks import Finding, contradictions
from groupwise.config.compose import compose_train_config
from groupwise.config.data import DOMAIN_OF_GENERATED, is_generated
from groupwise.data import sources
from groupwise.errors import UsageError

FILE = {"train": "x.jsonl"}
OWN = {"own": {"path": "m:f"}}


def build(**sections: Any) -> TrainConfig:
    return TrainConfig.model_validate(sections)


def rewards(**components: Any) -> TrainConfig:
    return build(rewards=components)


def code_domain(**components: Any) -> TrainConfig:
    return build(domains={"code": {"rewards": components}}, problems=FILE)


def of_level(config: TrainConfig, level: str) -> list[Finding]:
    return [finding for finding in contradictions(config) if finding.level == level]


ERRORS = [
    # Names, conditions, the gate.
    (rewards(functions={"for": {"path": "m:f"}}), "rewards.functions.for.path", ["a name of letters", "rename"]),
    (rewards(functions={"a-b": {"path": "m:f"}}), "rewards.functions.a-b.path", ["rewards.functions.a-b"]),
    (rewards(functions={"language": {"path": "m:f"}}), "rewards.functions.language.path", ["the name is taken"]),
    (rewards(functions={"auto": {"path": "m:f"}}), "rewards.functions.auto.path", ["the name is taken"]),
    (rewards(format={"weight": 0.1, "requires": "format"}), "rewards.format.requires", ["circle"]),
    (
        rewards(format={"weight": 0.1, "requires": "corectness"}),
        "rewards.format.requires",
        ["did you mean correctness?"],
    ),
    (rewards(format={"weight": 0.1, "requires": "overlong"}), "rewards.format.requires", ["never reaches 1"]),
    (
        rewards(functions={"own": {"path": "m:f", "requires": "other"}}),
        "rewards.functions.own.requires",
        ["no such component"],
    ),
    (rewards(gate="repetition"), "rewards.gate", ["never reaches 1"]),
    (code_domain(gate="fromat"), "domains.code.rewards.gate", ["domains.code.rewards.gate=fromat", "format?"]),
    # Who grades.
    (rewards(correctness={"grader": "mathz"}), "rewards.correctness.grader", ["no grader", "did you mean math?"]),
    (rewards(correctness={"grader": "judge"}), "rewards.correctness.grader", ["expected one of auto, math, code"]),
    (
        rewards(correctness={"grader": "own"}, functions={"own": {"path": "m:f", "returns": "token_spans"}}),
        "rewards.functions.own.returns",
        ["the function grades correctness", "set rewards.functions.own.returns=number"],
    ),
    (
        rewards(functions={"own": {"path": "m:f", "returns": "token_spans", "requires": "correctness"}}),
        "rewards.functions.own.requires",
        ["no part of the total", "leave it out"],
    ),
    (
        rewards(gate="correctness", functions={"own": {"path": "m:f", "returns": "token_spans"}}),
        "rewards.gate",
        ["the gate acts on the total"],
    ),
    (
        rewards(
            format={"weight": 0.2, "requires": "own"},
            functions={"own": {"path": "m:f", "returns": "token_spans", "weight": 0.0}},
        ),
        "rewards.format.requires",
        ["scores spans, of which no answer is full", "returns a number"],
    ),
    (
        rewards(correctness={"grader": "own"}, functions={"own": {"path": "m:f", "weight": 2.0}}),
        "rewards.functions.own.weight",
        ["the function grades correctness", "rewards.correctness.weight"],
    ),
    *[
        (rewards(correctness={"grader": "code", **options}), f"rewards.correctness.{key}", ["set it to auto or math"])
        for key, options in (
            ("undecided", {"undecided": "drop"}),
            ("second_grader", {"second_grader": "math_verify"}),
            ("math.answer", {"math": {"answer": "boxed"}}),
            ("math.units", {"math": {"units": "strict"}}),
        )
    ],
    *[
        (
            rewards(correctness={"grader": "math", "code": {key: value}}),
            f"rewards.correctness.code.{key}",
            ["no effect with rewards.correctness.grader=math", "set it to auto or code"],
        )
        for key, value in (("credit", "fraction"), ("max_tests", 3), ("float_tolerance", 1e-3))
    ],
    # The format.
    (
        rewards(format={"type": "regex"}),
        "rewards.format.pattern",
        ["rewards.format=regex without rewards.format.pattern"],
    ),
    (rewards(format={"type": "regex", "pattern": "("}), "rewards.format.pattern", ["not a regular expression"]),
    # Length, language, repetition.
    (rewards(overlong={"weight": 2.0}), "rewards.overlong.weight", ["overlong.buffer_tokens=0", "state a buffer"]),
    (rewards(length={"free_tokens": 9}), "rewards.length.free_tokens", ["no effect with rewards.length.weight=0"]),
    (rewards(length={"type": "group_relative"}), "rewards.length", ["no effect with rewards.length.weight=0"]),
    (
        rewards(length={"weight": 1, "free_tokens": 512}),
        "rewards.length.free_tokens",
        ["=512 is not less than sampling.max_new_tokens=512", "lower it"],
    ),
    (rewards(language={"script": "Han"}), "rewards.language.script", ["no effect with rewards.language.weight=0"]),
    (rewards(language={"weight": 1, "script": "English"}), "rewards.language.script", ["did you mean Latin?"]),
    (rewards(repetition={"ngram_tokens": 3}), "rewards.repetition.ngram_tokens", ["rewards.repetition.weight=0"]),
    (rewards(repetition={"free_fraction": 0.1}), "rewards.repetition.free_fraction", ["rewards.repetition.weight=0"]),
    (
        rewards(repetition={"weight": 1, "ngram_tokens": 512}),
        "rewards.repetition.ngram_tokens",
        ["no answer holds two such n-grams"],
    ),
    (
        rewards(repetition={"weight": 1, "free_fraction": 1.0}),
        "rewards.repetition.free_fraction",
        ["ever costs anything"],
    ),
    # Estimators.
    *[
        (
            build(advantage={"estimator": "pass_at_k"}, rewards=options),
            f"rewards.{key}",
            ["advantage.estimator=pass_at_k", "another estimator"],
        )
        for key, options in (
            ("correctness.weight", {"correctness": {"weight": 2.0}}),
            ("language.weight", {"language": {"weight": 0.1}}),
            ("functions.own.weight", {"functions": OWN}),
        )
    ],
    (
        build(advantage={"estimator": "pass_at_k"}, rewards={"correctness": {"code": {"credit": "fraction"}}}),
        "rewards.correctness.code.credit",
        ["right or wrong"],
    ),
    (build(advantage={"estimator": "pass_at_k"}, rewards={"gate": "format"}), "rewards.gate", ["leave the gate out"]),
    *[
        (
            build(advantage={"estimator": "max_rl"}, rewards=options),
            "advantage.estimator",
            [f"with rewards.{key}", "divides by the mean reward", "negative"],
        )
        for key, options in (
            ("length.weight", {"length": {"weight": 0.1}}),
            ("length.weight", {"length": {"weight": 0.1, "type": "group_relative"}}),
            ("repetition.weight", {"repetition": {"weight": 0.1}}),
            ("functions.own.weight", {"functions": {"own": {"path": "m:f", "weight": -0.1}}}),
        )
    ],
    # A domain says what it changes.
    (
        code_domain(overlong={"buffer_tokens": 513}),
        "domains.code.rewards.overlong.buffer_tokens",
        ["=513 is more than sampling.max_new_tokens=512"],
    ),
    (
        code_domain(language={"script": "Han"}),
        "domains.code.rewards.language.script",
        ["no effect with domains.code.rewards.language.weight=0", "back to that of rewards, Latin"],
    ),
    # Grading.
    (
        build(problems={"train": {"arithmetic": 1, "toy_code": 1}}, rewards={"correctness": {"grader": "math"}}),
        "rewards.correctness.grader",
        ["math with toy_code in problems.train", "tests and no answer", "domains.code.rewards.correctness.grader"],
    ),
    (
        build(domains={"math": {"rewards": {"correctness": {"grader": "code"}}}}),
        "domains.math.rewards.correctness.grader",
        ["code with arithmetic in problems.train", "an answer and no tests"],
    ),
    (build(grading={"workers": 3}), "grading.workers", ["rewards.functions={}", "name a function"]),
    (build(grading={"second_grader_seconds": 9}), "grading.second_grader_seconds", ["second_grader=none"]),
    # Sources.
    (build(problems={"train": {}}), "problems.train", ["name a source"]),
    (build(problems={"eval": ["a", "b", "a"]}), "problems.eval", ["names a more than once"]),
    (
        build(problems={"train": {"arithmetic": 1, "toy_code": 2}, "columns": {"answer": "gold"}}),
        "problems.columns.answer",
        ["no effect with problems.train={arithmetic: 1.0, toy_code: 2.0}"],
    ),
    (
        build(problems={"train": "reasoning_gym:chain_sum"}, active_sampling={"retire_accuracy": 0.9}),
        "active_sampling.retire_accuracy",
        ["no effect with problems.train=reasoning_gym:chain_sum"],
    ),
]


@pytest.mark.parametrize(("config", "key", "words"), ERRORS, ids=[f"{key}-{i}" for i, (_, key, _) in enumerate(ERRORS)])
def test_errors(config: TrainConfig, key: str, words: list[str]) -> None:
    (message,) = [finding.message for finding in of_level(config, "error") if finding.keys[0] == key]
    for word in words:
        assert word in message


def test_a_group_of_one_has_no_relative_length() -> None:
    config = build(
        rewards={"length": {"weight": 1.0, "type": "group_relative"}},
        batch={"samples_per_prompt": 1},
        advantage={"estimator": {"baseline": "none"}},
        active_sampling={"filter": "none", "refill": False},
    )
    (finding,) = contradictions(config)
    assert finding.keys == ("rewards.length", "batch.samples_per_prompt")
    assert "neither short nor long" in finding.message


WARNINGS = [
    # The trap, in every table.
    (
        rewards(format={"weight": 1.5}),
        "rewards.format.weight",
        ["rewards: a wrong answer can earn 1.5 (format), more than the 1 of a right one"],
    ),
    (
        rewards(functions={"own": {"path": "m:f", "weight": 1.0}}),
        "rewards.functions.own.weight",
        ["1 (own), as much as the 1", "what own can return is not known"],
    ),
    (
        code_domain(format={"weight": 1.0}),
        "domains.code.rewards.format.weight",
        ["domains.code.rewards: a wrong answer can earn 1 (format)", "lower domains.code.rewards.format.weight"],
    ),
    (
        rewards(format={"weight": 0.3, "requires": ""}, gate="format"),
        "rewards.gate",
        ["with rewards.gate=format", "earns nothing"],
    ),
    # A domain that pays nothing.
    (
        code_domain(correctness={"weight": 0.0}),
        "domains.code.rewards.correctness.weight",
        ["nothing is rewarded for problems of this domain", "never have a signal"],
    ),
    (rewards(format={"type": "regex", "pattern": ".*"}), "rewards.format.pattern", ["matches any text"]),
    (
        build(advantage={"estimator": "max_rl"}, rewards={"correctness": {"code": {"credit": "fraction"}}}),
        "advantage.estimator",
        ["rewards of 0 and 1", "set it to all"],
    ),
    # Domains without effect.
    (build(domains={"code": {}}, problems=FILE), "domains.code.rewards", ["states nothing that differs"]),
    (
        build(domains={"proofs": {"rewards": {"gate": "correctness"}}}),
        "domains.proofs.rewards",
        ["no problem is of this domain, they are of math", "problems.train=arithmetic"],
    ),
    (build(sandbox={"backend": "none"}), "sandbox.backend", ["read, write and connect as you can", "backend=auto"]),
    (
        build(problems={"train": {"a.jsonl": 1, "b.jsonl": 1}, "eval_problems": 8}),
        "problems.eval_problems",
        ["problems.eval=''"],
    ),
    (
        build(
            kl={"coefficient": 0.1},
            problems={"train": {"arithmetic": 1, "toy_code": 1}},
            domains={"math": {"kl_coefficient": 0.0}, "code": {"kl_coefficient": 0.0}},
        ),
        "domains.code.kl_coefficient",
        ["domains.math.kl_coefficient=0", "of the domain code or math", "penalises nothing"],
    ),
]


@pytest.mark.parametrize(
    ("config", "key", "words"), WARNINGS, ids=[f"{key}-{i}" for i, (_, key, _) in enumerate(WARNINGS)]
)
def test_warnings(config: TrainConfig, key: str, words: list[str]) -> None:
    assert of_level(config, "error") == []
    (message,) = [finding.message for finding in of_level(config, "warning") if finding.keys[0] == key]
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    "config",
    [
        # What is read in some domain is no mistake in the common table.
        build(
            rewards={
                "format": {"type": "regex", "pattern": "a+", "requires": "correctness"},
                "length": {"free_tokens": 9},
            },
            domains={"code": {"rewards": {"format": {"weight": 0.1}, "length": {"weight": 0.1}}}},
            problems=FILE,
        ),
        # A domain that turns something off takes its other options over.
        build(
            rewards={"language": {"weight": 0.1, "script": "Han"}, "overlong": {"buffer_tokens": 9, "weight": 2.0}},
            domains={"code": {"rewards": {"language": {"weight": 0.0}, "overlong": {"buffer_tokens": 0}}}},
            problems=FILE,
        ),
        # Measured because something else asks for it.
        rewards(language={"script": "Han"}, gate="language"),
        rewards(format={"type": "think_answer", "strictness": "soft"}),
        rewards(functions={"watched": {"path": "m:f", "weight": 0.0}}),
        build(advantage={"estimator": "pass_at_k"}, rewards={"functions": {"watched": {"path": "m:f", "weight": 0.0}}}),
        build(advantage={"estimator": "pass_at_k"}, rewards={"correctness": {"undecided": "drop"}}),
        rewards(correctness={"grader": "own"}, functions=OWN),
        build(rewards={"functions": {"own": {"path": "m:f", "weight": 0.5}}}, grading={"workers": 3}),
        build(
            rewards={"correctness": {"second_grader": "math_verify"}},
            grading={"second_grader_seconds": 2.0, "on_error": "stop"},
        ),
        build(rewards={"functions": {"own": {"path": "m:f", "weight": 0.5}}}, advantage={"clip": 1.5}),
        build(problems={"train": {"arithmetic": 1, "x.jsonl": 1}}, active_sampling={"retire_accuracy": 0.9}),
        build(problems={"train": {"arithmetic": 1, "x.jsonl": 1}, "eval_every_steps": 5}),
        build(problems={"train": "toy_code"}, domains={"code": {"rewards": {"gate": "correctness"}}}),
        build(kl={"coefficient": 0.1}, domains={"x": {"kl_coefficient": 0.0}}, problems={"train": "reasoning_gym:x"}),
        build(sandbox={"backend": "bubblewrap", "wall_seconds": 1.0, "memory_mb": 64}),
    ],
)  # fmt: skip
def test_what_is_right_passes(config: TrainConfig) -> None:
    assert contradictions(config) == []


def test_what_a_domain_takes_over_is_said_once() -> None:
    config = build(
        rewards={"format": {"weight": 1.0}, "repetition": {"weight": 1.0, "free_fraction": 1.0}},
        domains={"code": {"kl_coefficient": 0.1}, "proofs": {"rewards": {"format": {"weight": 2.0}}}},
        problems=FILE,
    )
    assert [finding.keys[0] for finding in contradictions(config)] == [
        "rewards.format.weight",
        "domains.proofs.rewards.format.weight",
        "rewards.repetition.free_fraction",
    ]


def test_the_place_of_what_contradicts_itself_is_said() -> None:
    with pytest.raises(UsageError, match=r"stated in domains\.code\.rewards\.gate=fromat") as caught:
        compose_train_config(["domains.code.rewards.gate=fromat", "rewards.functions.for.path=a:b"])
    assert "(stated in rewards.functions.for.path=a:b)" in str(caught.value)


def test_the_largest_advantage_is_that_of_the_domain_that_pays_most() -> None:
    def warned(clip: float) -> bool:
        config = build(
            advantage={"clip": clip},
            domains={"code": {"rewards": {"length": {"weight": 0.5}, "correctness": {"weight": 2.0}}}},
            problems=FILE,
        )
        return any(finding.keys[0] == "advantage.clip" for finding in contradictions(config))

    assert warned(2.5)
    assert not warned(2.4)


def test_the_domains_of_generated_sources_are_those_that_are_checked() -> None:
    made = {name: make(0, "train", 0).domain for name, make in sources.GENERATED.items()}
    assert made == DOMAIN_OF_GENERATED
    assert all(map(is_generated, (*made, "reasoning_gym:chain_sum")))
    assert not is_generated("x.jsonl")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rewards.format.pattern=a+"], ["rewards.format.pattern", "regex"]),
        (["rewards.format.pattern_milliseconds=5"], ["rewards.format.pattern_milliseconds", "regex"]),
        (["rewards.format={type: regex, pattern: a+, strictness: soft}"], ["rewards.format.strictness", "think"]),
        (
            ["rewards.length={type: group_relative, weight: 1, free_tokens: 9}"],
            ["rewards.length.free_tokens", "linear"],
        ),
    ],
)
def test_options_of_another_type_are_refused_by_its_name(arguments: list[str], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        compose_train_config(arguments)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["rewards.format.weight=1.0"], "or set rewards.format.requires=correctness"),
        (["rewards.format.weight=0.5", "rewards.language.weight=0.6"], "or set rewards.gate=correctness"),
        (["domains.code.rewards.format.weight=1.0"], "or set domains.code.rewards.format.requires=correctness"),
    ],
)
def test_the_advice_against_rewarded_wrong_answers_works_when_pasted(arguments: list[str], advice: str) -> None:
    (warned,) = [
        finding for finding in contradictions(compose_train_config(arguments)) if "can earn" in finding.message
    ]
    assert warned.message.endswith(advice)
    fixed = compose_train_config([*arguments, *advice.removeprefix("or set ").split()])
    assert not [finding for finding in contradictions(fixed) if "can earn" in finding.message]
