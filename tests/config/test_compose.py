"""Composing a configuration: what wins, what is refused, and how the errors read."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import groupwise.config.compose
from groupwise.config import SftConfig, TrainConfig
from groupwise.config.compose import (
    compose_sft_config,
    compose_train_config,
    dump_config,
    list_recipes,
)
from groupwise.config.data import PromptExample, PromptOptions
from groupwise.config.describe import describe_options
from groupwise.config.hints import suggest_keys
from groupwise.config.step import RunOptions
from groupwise.config.yaml_document import read_document, write_yaml
from groupwise.errors import UsageError
from groupwise.grading.components.group_relative_length import GroupRelativeLength
from groupwise.grading.components.regex_format import RegexFormat
from groupwise.grading.components.tagged_format import ThinkAnswerFormat
from groupwise.objective.advantages.group import Group
from groupwise.objective.surrogates.cispo import Cispo
from groupwise.objective.surrogates.ppo_clip import PpoClip

Write = Callable[..., str]
# A reader of YAML 1.1 that the package does not use: transformers brings PyYAML.
yaml: Any = importlib.import_module("yaml")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str | bytes, name: str = "my.yaml") -> str:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return write_file


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "grpo.yaml").write_text(
        "# GRPO as published.\n# More.\nadvantage: {estimator: {scale: group_std}}\nrun: {steps: 5}\n"
    )
    (folder / "dapo.yaml").write_text("objective: {surrogate: {clip_high: 0.3}}\n")
    (folder / "__init__.py").write_text("")
    monkeypatch.setattr(groupwise.config.compose, "files", lambda _: folder)
    return folder


def errors_of(*arguments: str) -> list[str]:
    """The lines of the error, without the count in front and with the folder of a file cut off."""
    with pytest.raises(UsageError) as caught:
        compose_train_config(arguments)
    assert caught.value.exit_code == 2
    first, *lines = str(caught.value).splitlines()
    assert first == f"{len(lines)} error{'s' if len(lines) > 1 else ''} in the configuration:"
    return [line.removeprefix("- ") for line in lines]


def error_of(*arguments: str) -> str:
    (line,) = errors_of(*arguments)
    return line


# What wins


def test_nothing_gives_the_defaults() -> None:
    assert compose_train_config([]) == TrainConfig()


@pytest.mark.parametrize(
    "change",
    ["rewards.format.type=think_answer", "rewards.format=think_answer", "rewards.format={type: think_answer}"],
)
def test_a_reward_of_another_type_keeps_the_options_that_both_have(change: str) -> None:
    stated = ["rewards.format={type: think, weight: 0.2, requires: correctness, strictness: soft}", change]
    config = compose_train_config(stated)
    assert config.rewards.format == ThinkAnswerFormat(weight=0.2, requires="correctness", strictness="soft")
    assert compose_train_config([*stated, "rewards.format=think"]).rewards.format.weight == 0.2
    regex = compose_train_config([*stated, "rewards.format={type: regex, pattern: 'a+', weight: 0.1}"])
    assert regex.rewards.format == RegexFormat(pattern="a+", weight=0.1, requires="correctness")
    length = compose_train_config(["rewards.length={weight: 0.3, free_tokens: 9}", "rewards.length=group_relative"])
    assert length.rewards.length == GroupRelativeLength(weight=0.3)


def test_later_wins_sections_merge_and_lists_are_replaced(write: Write) -> None:
    first = write(
        "optimizer: {lr: 1e-5, warmup_steps: 3}\n"
        "prompt: {examples: [{problem: a, answer: b}, {problem: c, answer: d}]}\n",
        "first.yaml",
    )
    second = write("optimizer:\n  lr: 2e-5\nprompt:\n  examples:\n  - {problem: e, answer: f}\n", "second.yaml")
    config = compose_train_config([first, second, "optimizer.warmup_steps=4"])
    assert (config.optimizer.lr, config.optimizer.warmup_steps) == (2e-5, 4)
    assert config.prompt.examples == [PromptExample(problem="e", answer="f")]
    assert compose_train_config([second, first, "optimizer={warmup_steps: 1}"]).optimizer.lr == 1e-5


@pytest.mark.parametrize(("text", "value"), [("1e-5", 1e-5), ("1E5", 1e5), ("1", 1.0), (".5", 0.5), ("+2.5e+1", 25.0)])
def test_numbers_are_numbers(text: str, value: float, write: Write) -> None:
    assert compose_train_config([f"optimizer.lr={text}"]).optimizer.lr == value
    assert compose_train_config([write(f"optimizer:\n  lr: {text}\n")]).optimizer.lr == value


@pytest.mark.parametrize("text", ["on", "off", "yes", "no", "12:30", "0o17", "0x1F", "1_000", "2024-01-01", "none"])
def test_only_yaml_1_2_scalars_are_special(text: str) -> None:
    assert read_document(f"key: {text}", "x").tree == {"key": text}


def test_the_other_scalars() -> None:
    text = "a: true\nb: False\nc: null\nd: ~\ne:\nf: 010\ng: -7\nh: -.inf\ni: 'true'\nj: !!str 3\n"
    assert read_document(text, "x").tree == {
        "a": True,
        "b": False,
        "c": None,
        "d": None,
        "e": None,
        "f": 10,
        "g": -7,
        "h": float("-inf"),
        "i": "true",
        "j": "3",
    }


def test_text_on_the_command_line_needs_no_quotes() -> None:
    config = compose_train_config(
        ["prompt.system=Answer: one number # please", "model.path=123", 'prompt.prefill="<think>\\n"', "run.output="]
    )
    assert config.prompt.system == "Answer: one number # please"
    assert config.model.path == "123"
    assert config.prompt.prefill == "<think>\n"
    assert config.run.output == ""
    assert compose_train_config(["run.output=a=b.yaml"]).run.output == "a=b.yaml"


def test_a_heading_without_lines_changes_nothing(write: Write) -> None:
    path = write("run: {steps: 7}\noptimizer:\n  # lr: 1\nproblems:\n  columns:\n")
    assert compose_train_config([path, "optimizer.lr=1e-3", path]).optimizer.lr == 1e-3
    assert compose_train_config([path]).run.steps == 7
    assert compose_train_config([write("", "empty.yaml")]) == TrainConfig()


def test_byte_order_mark_and_crlf(write: Write) -> None:
    assert compose_train_config([write("\ufeffrun:\r\n  steps: 3\r\n")]).run.steps == 3


# Recipes


def test_recipes_by_name(recipes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose_train_config(["grpo", "dapo", "run.steps=6"])
    assert (config.advantage.estimator, config.run.steps) == (Group(scale="group_std"), 6)
    assert config.objective.surrogate == PpoClip(clip_high=0.3)
    assert list(list_recipes().items()) == [("dapo", ""), ("grpo", "GRPO as published.")]
    monkeypatch.chdir(recipes)
    (recipes / "grpo").mkdir()
    assert compose_train_config(["grpo"]).run.steps == 5, "a folder of the same name does not hide a recipe"


def test_unknown_recipe(recipes: Path) -> None:
    assert "neither a recipe" in error_of("grpoo")
    assert "did you mean grpo?" in error_of("grpoo")
    assert "the recipes are dapo, grpo" in error_of("xyz")
    assert error_of("optimizer.lr") == "optimizer.lr: this option needs a value: optimizer.lr=VALUE"
    (recipes / "grpo.yaml").write_text("run: {stepz: 1}\n")
    assert error_of("grpo") == "recipe grpo:1: run.stepz is not an option; did you mean run.steps?"


def test_a_file_of_problems_is_no_file_of_options() -> None:
    assert "write problems.eval=test.jsonl" in error_of("test.jsonl")


def test_every_shipped_recipe_has_a_summary_and_composes() -> None:
    for name, summary in list_recipes().items():
        assert summary, name
        compose = compose_sft_config if name.startswith("sft") else compose_train_config
        compose([name, "data=x", "output=y"] if name.startswith("sft") else [name])


# Techniques


def test_techniques_on_a_command_line_and_in_files(write: Write) -> None:
    path = write(
        "objective:\n  surrogate: {type: cispo, cap: 4}\n"
        "kl:\n  estimator: k1\n  coefficient: 0.1\n"
        "entropy:\n  tokens:\n    # later\n"
    )
    config = compose_train_config([path])
    assert (config.objective.surrogate, config.kl.estimator.type) == (Cispo(cap=4.0), "k1")
    assert compose_train_config([path, "objective.surrogate.floor=1"]).objective.surrogate == Cispo(cap=4.0, floor=1.0)
    assert compose_train_config([path, "objective.surrogate=cispo"]).objective.surrogate == Cispo()
    assert compose_train_config([path, "objective.surrogate.type=ppo_clip"]).objective.surrogate == PpoClip()
    assert compose_train_config([path, write(dump_config(config), "same.yaml")]) == config
    assert error_of(path, "objective.surrogate={type: cispo, log_clip_low: 0.1}") == (
        "objective.surrogate={type: cispo, log_clip_low: 0.1}: objective.surrogate.log_clip_low is not an option of "
        "cispo; gmpo has it: 'objective.surrogate={type: gmpo, log_clip_low: ...}'"
    )
    wrong = write("objective:\n  surrogate:\n    type: cispo\n    cap: high\n", "wrong.yaml")
    assert (
        error_of(wrong)
        == f"{wrong}:4: objective.surrogate.cap: found the text 'high', expected a number of more than 0"
    )
    wrong = write("engine: elsewhere\nobjective:\n  surrogate:\n    type: cispoo\n", "wrong.yaml")
    assert [line.partition(": ")[0] for line in errors_of(wrong)] == [f"{wrong}:1", f"{wrong}:4"]


# Unknown keys


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("lr", "optimizer.lr"),
        ("objective.lr", "optimizer.lr"),
        ("optimiser.lr", "optimizer"),
        ("clip_esp_low", "objective.surrogate.clip_low"),
        ("objective.clip_esp_low", "objective.surrogate.clip_low"),
        ("optimizer.bata2", "optimizer.beta2"),
        ("sampling_temperature", "sampling.temperature"),
        ("batch.sample_per_prompt", "batch.samples_per_prompt"),
        ("--optimizer.lr", "optimizer"),
    ],
)
def test_unknown_key_gets_a_suggestion(key: str, meant: str) -> None:
    message = error_of(f"{key}=1")
    assert message.startswith(f"{key}=1: ")
    assert "is not an option" in message
    assert f"did you mean {meant}?" in message


def test_unknown_key_without_a_likeness_names_the_known_ones() -> None:
    message = error_of("problems.columns.question=q")
    assert "problems.columns.question is not an option; the keys here are problem, answer, domain" in message
    assert "the keys here are run, model, prompt" in error_of("zzzzzz=1")


def test_several_sections_with_the_key() -> None:
    assert suggest_keys("steps", ["run.steps", "a.steps", "b.c"]) == ["run.steps", "a.steps"]


def test_all_errors_at_once_each_with_its_line(write: Write) -> None:
    path = write(
        "lr: 3\n"
        "optimizer:\n"
        "  lr: abc\n"
        "  beta1: 1\n"
        "  warmup_steps: '8'\n"
        "batch:\n"
        "  samples_per_prompt: 1\n"
        "  prompts_per_step: 2e1\n"
        "  epochs_per_step: true\n"
        "objective: {reduction: token_men}\n"
        "advantage: {estimator: {scale: null, std_ddof: 2}}\n"
        "model: {path: 3}\n"
        "prompt:\n"
        "  examples:\n"
        "  - {problem: a, answer: 3}\n"
        "  - {problem: a, answr: b}\n"
        "  - 7\n"
        "run: 7\n"
        "rewards: {answer: [boxed]}\n"
    )
    errors = errors_of(path, "absent.yaml", "sampling.temperature=.nan", "run.seed=-1")
    expected = [
        "absent.yaml: there is no such file",
        "run.seed=-1: run.seed: found the integer -1, expected an integer of at least 0",
        f"{path}:1: lr is not an option; did you mean optimizer.lr?",
        f"{path}:3: optimizer.lr: found the text 'abc', expected a number of more than 0",
        f"{path}:4: optimizer.beta1: found the integer 1, expected a number of at least 0 and less than 1",
        f"{path}:5: optimizer.warmup_steps: found the text '8', expected an integer of at least 0; "
        "take it out of its quotes",
        f"{path}:8: batch.prompts_per_step: found the number 20.0, expected an integer of at least 1; write 20",
        f"{path}:9: batch.epochs_per_step: found true, expected an integer of at least 1",
        f"{path}:10: objective.reduction: found the text 'token_men', expected one of token_mean, "
        "sequence_mean_token_mean, sequence_mean_token_sum, constant_length, group_token_mean; did you mean "
        "token_mean?",
        f"{path}:11: advantage.estimator.scale: found nothing (null), expected one of none, group_std, batch_std",
        f"{path}:11: advantage.estimator.std_ddof: found the integer 2, expected one of 0, 1",
        f"{path}:12: model.path: found the integer 3, expected text; put it in quotes",
        f"{path}:15: prompt.examples[0].answer: found the integer 3, expected text; put it in quotes",
        f"{path}:16: prompt.examples[1].answer is missing and has no default; expected text",
        f"{path}:16: prompt.examples[1].answr is not an option; expected a section with the keys problem, answer",
        f"{path}:17: prompt.examples[2]: found the integer 7, expected a section with the keys problem, answer",
        f"{path}:19: rewards.answer is not an option; did you mean rewards.correctness.math.answer?",
        "sampling.temperature=.nan: sampling.temperature: found the number nan, expected a number of more than 0",
    ]
    assert sorted(errors) == sorted(expected)


def test_section_where_a_value_is_expected_and_the_reverse(write: Write) -> None:
    assert "run: found the integer 7, expected a section with the keys steps, seed" in error_of("run=7")
    assert "run.steps: found a section with the keys x" in error_of("run.steps.x=7")
    assert "not as 'run.steps'" in error_of(write("run.steps: 3\n"))


def test_the_place_of_a_replaced_value_is_the_later_one(write: Write) -> None:
    first = write("run: {steps: 0}\n", "first.yaml")
    second = write("\n\nrun: {steps: -1}\n", "second.yaml")
    assert error_of(first, second).startswith(f"{second}:3: run.steps: found the integer -1")
    assert compose_train_config([first, "run.steps=1"]).run.steps == 1


# Contradictions join the other errors


def test_contradictions_are_listed_with_the_rest(write: Write) -> None:
    path = write("batch: {samples_per_prompt: 1}\nrun: {stepz: 3}\noptimizer: {final_lr_fraction: 0.5}\n")
    errors = errors_of(path)
    assert len(errors) == 3
    assert any("run.stepz" in error for error in errors)
    assert any("batch.samples_per_prompt=1" in error and f"(stated in {path}:1)" in error for error in errors)
    assert any("optimizer.final_lr_fraction=0.5 has no effect" in error for error in errors)


def test_a_wrong_value_brings_no_false_contradiction() -> None:
    assert "optimizer.schedule" in error_of("optimizer.schedule=cosin", "optimizer.final_lr_fraction=0.1")
    assert "optimizer.shedule" in error_of("optimizer.shedule=cosine", "optimizer.final_lr_fraction=0.1")


def test_warnings_do_not_refuse() -> None:
    assert compose_train_config(["objective.surrogate.clip_low=1.0"]).objective.surrogate == PpoClip(clip_low=1.0)


# Files that are not configurations


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run: {steps: 1}\nrun: {seed: 1}\n", [":2: the key `run` stands here a second time", ":1"]),
        ("run:\n  steps: 1\n  seed: 2\n  steps: 3\n", [":4: the key `steps`", ":2"]),
        ("- a\n", [":1: expected `key: value` lines, found a list"]),
        ("\njust words\n", [":2: expected", "only the value 'just words'"]),
        ("run:\n  steps: [1\n", [":3: not valid YAML"]),
        ("run:\n\tsteps: 1\n", [":2: not valid YAML", "\\t"]),
        ("run: *x\n", [":1: aliases (*x) are not supported"]),
        ("a: &a [1]\nb: *a\n", [":2: aliases"]),
        ("run: !!python/object/apply:os.system [ls]\n", ["run"]),
        ("run: {steps: !!python/name:os.system x}\n", [":1: the tag", "not supported"]),
        ("run: {steps: !!int x}\n", [":1: the tag", "not supported"]),
        ("? [a]\n: 1\n", [":1: a key must be text, found a list"]),
        ("run: {steps: 1}\n---\nrun: {steps: 2}\n", ["not valid YAML", "document"]),
        (b"run: {steps: 1}\n# \xff\n", [":2: not valid UTF-8"]),
        (b"run: {steps: 1}\n\n# \x00\n", [":3: not valid YAML", "U+0000"]),
        ("run: {steps: " + "9" * 5000 + "}", ["run.steps: found the text '999", "expected an integer"]),
        ("run: " + "[" * 20, ["not valid YAML"]),
        ("run: " + "[" * 1200 + "]" * 1200, ["nested too deeply"]),
        ("run: " + "{" * 1200, ["nested too deeply"]),
        ("? " * 1200, ["nested too deeply"]),
    ],
)
def test_broken_files(text: str | bytes, words: list[str], write: Write) -> None:
    message = error_of(write(text))
    for word in words:
        assert word in message
    assert len(message) < 500


def test_unreadable_places(tmp_path: Path) -> None:
    assert "this is a folder" in error_of(str(tmp_path))
    assert "there is no such file" in error_of(str(tmp_path / "absent.yml"))
    assert "not valid UTF-8" in error_of("model.path=\udcff")
    assert "run.steps=[1: not valid YAML" in error_of("run.steps=[1")
    assert "expected a list" in error_of("prompt.examples={problem: a}")


# Supervised training


def test_sft_config_names_what_is_missing() -> None:
    with pytest.raises(UsageError) as caught:
        compose_sft_config(["steps=10", "muon_lr=0.1"])
    message = str(caught.value)
    assert "data is missing and has no default; expected text (JSONL with" in message
    assert "output is missing" in message
    assert compose_sft_config(["data=d.jsonl", "output=out"]) == SftConfig(data="d.jsonl", output="out")
    with pytest.raises(UsageError, match=r"1 error .*\n- absent.yaml: there is no such file"):
        compose_sft_config(["absent.yaml"])


# Writing


def test_dump_composes_to_the_same_configuration(write: Write) -> None:
    config = compose_train_config(
        ["optimizer.lr=1e-5", "prompt.system=on", "prompt.examples=[{problem: '', answer: '1'}]"]
    )
    text = dump_config(config)
    assert compose_train_config([write(text)]) == config
    assert yaml.safe_load(text)["optimizer"]["lr"] == 1e-5, "a YAML 1.1 reader agrees"
    assert yaml.safe_load(text)["prompt"]["system"] == "on"


@settings(deadline=None)
@given(
    text=st.text(st.characters(codec="utf-8"))
    | st.sampled_from(["1e-5", "yes", "null", "~", "12:30", "0o7", "0x1", "=", "<<"]),
    number=st.floats(min_value=5e-324, allow_infinity=False, allow_nan=False),
)
def test_dump_round_trips_any_text_and_number(text: str, number: float) -> None:
    prompt = PromptOptions(system=text, examples=[PromptExample(problem=text, answer=text)])
    tree = TrainConfig(prompt=prompt, run=RunOptions(output=text)).model_dump()
    tree["optimizer"]["lr"] = number
    written = write_yaml(tree)
    assert read_document(written, "x").tree == tree
    assert yaml.safe_load(written) == tree


# The list of options


def test_options_are_described() -> None:
    rows = {row.key: row for row in describe_options(TrainConfig)}
    assert rows["optimizer.lr"].type == "a number of more than 0"
    assert rows["optimizer.lr"].default == 1e-6
    assert rows["optimizer.lr"].doc == "Peak learning rate."
    assert rows["batch.samples_per_prompt"].type == "an integer of at least 1"
    assert rows["optimizer.final_lr_fraction"].type == "a number of at least 0 and at most 1"
    assert rows["advantage.estimator.scale"].type == "one of none, group_std, batch_std"
    assert rows["active_sampling.refill"].type == "true or false"
    assert rows["problems.columns.answer"].type == "text"
    assert rows["prompt.examples"].type == "a list, each entry a section with the keys problem, answer"
    sft = {row.key: row for row in describe_options(SftConfig)}
    assert (sft["data"].required, sft["data"].default, sft["steps"].required) == (True, None, False)
