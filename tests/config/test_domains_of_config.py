"""Domains state what differs from the common rewards; sources are one or several; both from files and command lines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupwise.config import TrainConfig
from groupwise.config.compose import compose_train_config, dump_config
from groupwise.config.data import DomainOptions
from groupwise.config.describe import NAME, describe_options
from groupwise.config.merge import differences, merged
from groupwise.config.yaml_document import read_document
from groupwise.errors import UsageError
from groupwise.explaining.reward_table import domain_lines, domain_table
from groupwise.grading.components.tagged_format import ThinkAnswerFormat, ThinkFormat
from groupwise.grading.reward_options import FunctionOptions, RewardOptions
from groupwise.objective.kl.penalty import KlOptions


def build(**sections: Any) -> TrainConfig:
    return TrainConfig.model_validate(sections)


def error_of(*arguments: str) -> str:
    with pytest.raises(UsageError) as caught:
        compose_train_config(arguments)
    return str(caught.value)


# Domains

CODE = {
    "rewards": {"format": {"weight": 0.2, "type": "think_answer"}, "functions": {"brevity": {"path": "m:f"}}},
    "domains": {
        "code": {
            "rewards": {"format": {"weight": 0.0}, "functions": {"brevity": {"weight": -1.0}, "own": {"path": "m:g"}}}
        }
    },
}


def test_a_domain_takes_over_what_it_does_not_state() -> None:
    config = build(**CODE)
    code = config.rewards_of("code")
    assert code.format == ThinkAnswerFormat(weight=0.0)
    assert code.functions["brevity"] == FunctionOptions(path="m:f", weight=-1.0)
    assert list(code.functions) == ["brevity", "own"]
    assert code.correctness == config.rewards.correctness
    assert config.rewards_of("anything else") == config.rewards
    assert list(config.rewards.functions) == ["brevity"]
    assert config.reward_tables() == {"": config.rewards, "code": code}


def test_coefficients_of_domains() -> None:
    config = build(kl={"coefficient": 0.1}, domains={"math": {"kl_coefficient": 0.0}, "code": {"rewards": {}}})
    found = [config.kl_coefficient_of(name) for name in ("math", "code", "anything else")]
    assert found == [0.0, 0.1, 0.1]


def test_sections_may_be_objects() -> None:
    config = TrainConfig(
        rewards=RewardOptions(format=ThinkFormat(weight=0.5)),
        domains={"code": DomainOptions(kl_coefficient=0.2, rewards=RewardOptions(gate="correctness"))},
        kl=KlOptions(coefficient=0.1),
    )
    assert config.rewards_of("code") == RewardOptions(format=ThinkFormat(weight=0.5), gate="correctness")
    assert config.kl_coefficient_of("code") == 0.2


def test_only_what_differs_is_written() -> None:
    written = build(**CODE).model_dump()["domains"]
    assert written["code"]["rewards"]["format"] == {"weight": 0.0}
    assert written["code"]["rewards"]["functions"]["brevity"] == {"weight": -1.0}
    assert written["code"]["rewards"]["functions"]["own"]["path"] == "m:g"
    assert set(written["code"]) == {"rewards"}
    assert set(written["code"]["rewards"]) == {"format", "functions"}


def test_a_later_change_of_the_common_rewards_reaches_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(dump_config(build(**CODE)))
    config = compose_train_config([str(path), "rewards.format.strictness=soft", "rewards.overlong.buffer_tokens=7"])
    code = config.rewards_of("code")
    assert code.format == ThinkAnswerFormat(weight=0.0, strictness="soft")
    assert code.overlong.buffer_tokens == 7


SECTIONS = {
    "format": st.fixed_dictionaries(
        {},
        optional={"weight": st.sampled_from([0.0, 0.5]), "requires": st.sampled_from(["", "correctness"])},
    ),
    "correctness": st.fixed_dictionaries(
        {},
        optional={
            "math": st.fixed_dictionaries({}, optional={"answer": st.sampled_from(["boxed", "lenient"])}),
            "grader": st.sampled_from(["auto", "code"]),
        },
    ),
    "gate": st.sampled_from(["", "format"]),
    "functions": st.dictionaries(
        st.sampled_from(["one", "other"]),
        st.fixed_dictionaries({"path": st.sampled_from(["m:f", "m:g"])}, optional={"weight": st.floats(-1, 1)}),
    ),
}
REWARDS = st.fixed_dictionaries({}, optional=SECTIONS)
DOMAINS = st.dictionaries(
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.fixed_dictionaries({}, optional={"kl_coefficient": st.sampled_from([None, 0.0, 0.1]), "rewards": REWARDS}),
)


@settings(deadline=None, max_examples=50)
@given(rewards=REWARDS, domains=DOMAINS)
def test_what_is_written_is_read_back_exactly(rewards: dict[str, Any], domains: dict[str, Any]) -> None:
    config = build(rewards=rewards, domains=domains)
    tree = read_document(dump_config(config), "x").tree
    again = TrainConfig.model_validate(tree)
    assert again == config
    assert dump_config(again) == dump_config(config)
    for name, domain in domains.items():
        assert tree["domains"][name].get("kl_coefficient") == domain.get("kl_coefficient")
        assert config.rewards_of(name) == RewardOptions.model_validate(
            merged(RewardOptions, rewards, domain.get("rewards", {}))
        )


TREES = st.recursive(st.integers(0, 2), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3))


@settings(deadline=None)
@given(base=TREES, changes=TREES)
def test_differences_undo_a_merge(base: Any, changes: Any) -> None:
    whole = merged(None, base, changes)
    assert merged(None, base, differences(base, whole)) == whole
    assert differences(base, base) in ({}, base)


# Files and command lines


def test_overrides_of_a_domain_and_of_a_function(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text(
        "rewards:\n  functions:\n    brevity: {path: 'my:f'}\ndomains:\n  code:\n  proofs:\n    kl_coefficient: 0.5\n"
    )
    config = compose_train_config(
        [
            str(path),
            "domains.code.kl_coefficient=0.01",
            "domains.code.rewards.format.weight=0",
            "domains.proofs.rewards.functions.brevity.weight=2",
            "rewards.functions.brevity.requires=correctness",
            "rewards.functions.other.path=pack.age:f",
            "rewards.format.weight=0.2",
        ]
    )
    assert config.kl_coefficient_of("code") == 0.01
    assert config.rewards_of("code").format.weight == 0
    proofs = config.rewards_of("proofs")
    assert proofs.functions["brevity"] == FunctionOptions(path="my:f", weight=2.0, requires="correctness")
    assert proofs.functions["other"].path == "pack.age:f"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rewards.functions.brevity={path: a, wieght: 1}"], ["did you mean rewards.functions.brevity.weight?"]),
        (["rewards.functions.brevity.weight=1"], ["rewards.functions.brevity.path is missing", "package.module"]),
        (["domains.code.rewards.formt.weight=1"], ["did you mean domains.code.rewards.format?"]),
        (["domains.code.rewards.format_weight=1"], ["did you mean domains.code.rewards.format.weight?"]),
        (["domains.code.kl=1"], ["the keys here are kl_coefficient, rewards"]),
        (["domains.code.kl_coefficient=-1"], ["expected a number of at least 0 or nothing (null)"]),
        (["domains.code=3"], ["domains.code: found the integer 3", "kl_coefficient, rewards"]),
        (["domains=3"], ["domains: found the integer 3, expected a mapping from names"]),
        (["rewards.correctness_weight=1"], ["did you mean rewards.correctness.weight?"]),
        (["rewards.format_requires=correct"], ["did you mean rewards.format.requires?"]),
        (["rewards.answer=boxed"], ["did you mean rewards.correctness.math.answer?"]),
        (["rewards.overlong_buffer_tokens=8"], ["did you mean rewards.overlong.buffer_tokens?"]),
    ],
)
def test_errors_below_names_of_the_user(arguments: list[str], words: list[str]) -> None:
    message = error_of(*arguments)
    for word in ["1 error", *words]:
        assert word in message


def test_a_wrong_value_is_said_once_though_every_domain_takes_it_over() -> None:
    message = error_of("rewards.format.weight=-1", "domains.a.kl_coefficient=1", "domains.b.rewards.format.weight=-2")
    assert message.splitlines()[1:] == [
        "- rewards.format.weight=-1: rewards.format.weight: found the integer -1, expected a number of at least 0",
        "- domains.b.rewards.format.weight=-2: domains.b.rewards.format.weight: found the integer -2, expected a "
        "number of at least 0",
    ]
    assert "1 error" in error_of("rewards.functions.f.weight=1", "domains.a.kl_coefficient=1")


def test_a_wrong_value_brings_no_false_contradiction_in_a_domain() -> None:
    arguments = ["rewards.format.type=rgex", "rewards.format.pattern=a+", "domains.a.rewards.format.weight=1"]
    assert "1 error" in error_of(*arguments)


def test_names_of_the_user_are_listed_as_name() -> None:
    rows = {row.key: row for row in describe_options(TrainConfig)}
    assert rows[f"domains.{NAME}.kl_coefficient"].type == "a number of at least 0 or nothing (null)"
    assert rows[f"domains.{NAME}.rewards"].type == "a section with the keys of rewards"
    assert rows[f"rewards.functions.{NAME}.path"].required
    assert not any(key.startswith(f"domains.{NAME}.rewards.") for key in rows)


# Sources


@pytest.mark.parametrize(
    ("stated", "sources"),
    [
        ("arithmetic", {"arithmetic": 1.0}),
        ("build/sums, more.jsonl", {"build/sums, more.jsonl": 1.0}),
        ("'{x}.jsonl'", {"{x}.jsonl": 1.0}),
        ("12", {"12": 1.0}),
        ("{arithmetic: 3, toy_code: 1}", {"arithmetic": 3.0, "toy_code": 1.0}),
        ("{reasoning_gym:chain_sum: 1, a/b.jsonl: 0.5}", {"reasoning_gym:chain_sum": 1.0, "a/b.jsonl": 0.5}),
    ],
)
def test_sources_to_train_on(stated: str, sources: dict[str, float]) -> None:
    config = compose_train_config([f"problems.train={stated}", "problems.eval_problems=0"])
    assert config.problems.train_sources == sources
    assert TrainConfig.model_validate(read_document(dump_config(config), "x").tree) == config


def test_shares_are_replaced_whole() -> None:
    config = compose_train_config(["problems.train={arithmetic: 1}", "problems.train={toy_code: 2}"])
    assert config.problems.train == {"toy_code": 2.0}
    assert compose_train_config(["problems.train={toy_code: 2}", "demo"]).problems.train == "arithmetic"


def test_sources_to_measure_on() -> None:
    def measured(*arguments: str) -> list[str]:
        return compose_train_config(arguments).problems.eval_sources

    assert measured() == []
    assert measured("problems.eval=a.jsonl") == ["a.jsonl"]
    assert measured("problems.eval=[a.jsonl, toy_code]") == ["a.jsonl", "toy_code"]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (
            "problems.train={arithmetic: 0}",
            ["problems.train.arithmetic: found the integer 0", "a number of more than 0"],
        ),
        ("problems.train={arithmetic: a}", ["problems.train.arithmetic: found the text 'a'"]),
        ("problems.train={}", ["name a source to train on"]),
        ("problems.train=", ["name a source to train on"]),
        ("problems.train=[arithmetic]", ["found a list of 1, expected text or a mapping from names to values"]),
        ("problems.train={arithmetic: 1", ["not valid YAML"]),
        ("problems.eval={a: 1}", ["found a section with the keys a, expected text or a list, each entry text"]),
        ("problems.eval=[a, 3]", ["problems.eval[1]: found the integer 3, expected text"]),
        ("problems.eval=[a.jsonl, a.jsonl]", ["a.jsonl more than once"]),
    ],
)
def test_sources_that_cannot_be(argument: str, words: list[str]) -> None:
    message = error_of(argument)
    for word in ["1 error", *words]:
        assert word in message


def test_a_recipe_of_the_seed_is_one_table() -> None:
    config = compose_train_config(["seed_deepseek_v32"])
    coefficient: Callable[[str], float] = config.kl_coefficient_of
    assert [coefficient(name) for name in ("math", "code", "science")] == [0.0, 0.02, 0.0]


def test_the_table_of_the_documentation(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    (stated,) = [block for block in page.split("```\n")[1::2] if "domains:" in block]
    (shown,) = [block for block in page.split("```\n")[1::2] if block.startswith("domain  ")]
    path = tmp_path / "page.yaml"
    path.write_text(f"problems: {{train: x.jsonl}}\n{stated}")
    assert domain_lines(domain_table(compose_train_config([str(path)]))) == shown.splitlines()
