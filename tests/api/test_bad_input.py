"""What is wrong with arguments: the command line's messages as exceptions, all at once, and nothing left behind."""

from pathlib import Path
from typing import Any

import pytest

import groupwise
from tests.api.program import OPTIONS, PROBLEMS, Counted
from tests.support.commands import groupwise as command


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "overrides"),
    [
        (["optimzer.lr=0.1"], {"optimzer.lr": 0.1}),
        (["optimizer.lr=-1", "rnu={steps: 3}"], {"optimizer": {"lr": -1}, "rnu": {"steps": 3}}),
        (["lr=3"], {"lr": 3}),
        (["run.steps=2.5"], {"run.steps": 2.5}),
        (
            ["objective.surrogate={type: cispo, clip_low: 0.1}"],
            {"objective.surrogate": {"type": "cispo", "clip_low": 0.1}},
        ),
        (["batch.samples_per_prompt=1"], {"batch": {"samples_per_prompt": 1}}),
        (["sampling.top_p=0.9"], {"sampling.top_p": 0.9}),
        (["sampling.temperatur=1", "optimizer.lr=x"], {"sampling.temperatur": 1, "optimizer.lr": "x"}),
        (["model.path=nowhere"], {"model": "nowhere"}),
        (["problems.train=nowhere.jsonl"], {"problems": "nowhere.jsonl"}),
        (["problems.train=aritmetic"], {"problems": "aritmetic"}),
        (["rewards.functions.f.path=nowhere.py:f"], {"rewards": {"f": "nowhere.py:f"}}),
    ],
)
def test_the_message_is_that_of_the_command_line(
    arguments: list[str], overrides: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outcome = command(capsys, "train", "demo", *arguments)
    with pytest.raises(groupwise.GroupwiseError) as raised:
        groupwise.train("demo", **overrides)
    assert str(raised.value) == outcome.err.removeprefix("error: ").strip()
    assert raised.value.exit_code == outcome.code
    assert capsys.readouterr().err == "", "what is raised is not printed too"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (
            {"problems": [{"question": "1 + 1 = ?"}]},
            "DataError",
            r"^problems: the columns are not known; found question",
        ),
        ({"problems": []}, "DataError", r"^problems: the file is empty"),
        ({"problems": [{"question": "1?", "answer": ""}]}, "DataError", r"^problems: none of 1 rows|^problems: 1 row"),
        ({"problems": ["1 + 1"]}, "UsageError", r"problems: found text as row 1, expected a dict"),
        ({"problems": 3}, "UsageError", r"problems: found an integer, expected rows"),
        ({"problems": {"training": "x"}}, "UsageError", r"problems.training is not an option"),
        ({"eval_problems": [{"q": 1}]}, "DataError", r"^eval_problems: the columns are not known"),
        ({"rewards": [3]}, "UsageError", r"rewards\[0\]: found int"),
        (
            {"rewards": [lambda completion: len(completion)]},
            "DataError",
            r"reward function 'reward_1' \(reward_1\) cannot be loaded",
        ),
        ({"rewards": {"a b": Counted()}}, "UsageError", r"functions.a b: expected a name of letters"),
        ({"rewards": {"format": Counted()}}, "UsageError", r"format"),
        ({"tokenizer": "bundled"}, "UsageError", r"tokenizer: only a loaded model needs one"),
        ({"model": object()}, "UsageError", r"model: found object, expected a path or a model of transformers"),
        ({"config": 3}, "UsageError", r"config: found int, expected a recipe"),
        ({"config": "grpoo"}, "UsageError", r"grpoo: neither a recipe, .*; did you mean grpo\?"),
        ({"config": {"optimizer.lr": object()}}, "UsageError", r"optimizer.lr: found object, expected text, a number"),
        ({"output": "."}, "UsageError", r"never"),
    ],
)
def test_what_only_a_program_can_get_wrong(
    arguments: dict[str, Any], kind: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if said == "never":
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "file").write_text("kept")
        monkeypatch.chdir(tmp_path / "mine")
        said = "exists already and is not overwritten"
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(getattr(groupwise, kind), match=said):
        groupwise.train(**{"problems": PROBLEMS, "quiet": True, **OPTIONS, **arguments})
    assert sorted(tmp_path.rglob("*")) == before, "nothing is left behind, and nothing is gone"


def test_a_dictionary_of_splits_names_its_splits() -> None:
    class Split(list[Any]):
        column_names = ("question", "answer")

    with pytest.raises(groupwise.UsageError, match=r"found the splits train, test; pass one of them"):
        groupwise.train(problems={"train": Split(), "test": Split()})


def test_a_loaded_model_needs_a_tokenizer() -> None:
    class Loaded:
        config = name_or_path = ""

        def save_pretrained(self, folder: str) -> None:
            raise AssertionError(folder)

    class Adapted(Loaded):
        peft_config = ""

    class Named(Loaded):
        name_or_path = "nowhere"

    for model, said in (
        (Loaded(), r"tokenizer: a loaded model needs one, and this model does not say where it came from"),
        (Named(), r"tokenizer: there is no model at 'nowhere'.*; pass tokenizer="),
        (Adapted(), r"several adapters, or no PeftModel; merge them first, model.merge_and_unload\(\)"),
    ):
        with pytest.raises(groupwise.UsageError, match=said):
            groupwise.train(model=model, problems=PROBLEMS)
    with pytest.raises(groupwise.UsageError, match=r"tokenizer: found int"):
        groupwise.train(model=Loaded(), tokenizer=3, problems=PROBLEMS)


def test_everything_at_once() -> None:
    wrong: Any = [2]
    with pytest.raises(
        groupwise.UsageError, match=r"3 errors in the arguments:\n- model: .*\n- problems: .*\n- rewards"
    ):
        groupwise.train(model=object(), problems=[1], rewards=wrong)
    with pytest.raises(groupwise.UsageError, match="2 errors in the configuration"):
        groupwise.load_config("demo", optimizer={"lr": -1}, **{"run.stesp": 3})
