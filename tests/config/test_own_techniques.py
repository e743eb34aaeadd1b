"""Code of the user's own in a configuration: composed, refused, written and read again, explained; as objects too."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import groupwise
from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.config.compose import compose_to_explain, compose_train_config, dump_config
from groupwise.errors import UsageError
from groupwise.explaining.report import explain, to_json, to_text
from groupwise.own_code import OwnCodeError

CODE = '''
import groupwise


@groupwise.surrogate(formula="min(r, {cap})·A")
def mine(inputs, cap: float = 5.0, side="both"):
    """A cap on the ratio."""
    print("printed by the code")
    return -inputs.ratio_N.clamp(max=cap) * inputs.advantages_N


@groupwise.advantage(formula="{times}·(R - mean(R))")
def centred(rewards_PG, times: float = 1.0):
    return times * (rewards_PG - rewards_PG.mean(-1, keepdim=True))


@groupwise.mask(formula="0 where A < 0, else 1")
def good(inputs):
    return inputs.advantages_N >= 0


def mean_of(inputs):
    return -(inputs.ratio_N * inputs.advantages_N).mean()


def count(inputs, k: int):
    return -inputs.ratio_N * inputs.advantages_N * k
'''
MINE = "objective.surrogate={type: function, path: my_loss.py:mine}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_loss.py").write_text(CODE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(*arguments: Any) -> str:
    with pytest.raises(UsageError) as caught:
        compose_train_config(arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["objective.surrogate.path=missing.py:mine", "objective.surrogate=function"],
            "objective.surrogate=function: objective.surrogate.path is missing and has no default; expected text",
        ),
        (
            ["objective.surrogate=function", "objective.surrogate.path=missing.py:mine"],
            "objective.surrogate.path: there is no file missing.py (looked for at ",
        ),
        (
            ["objective.surrogate=function", "objective.surrogate.path=no_such_package.loss:mine"],
            "objective.surrogate.path: there is no module 'no_such_package'. It is looked for in the current directory",
        ),
        (
            ["objective.surrogate=function", "objective.surrogate.path=my_loss.py"],
            "'my_loss.py' should read package.module:function or file.py:function",
        ),
        (
            ["objective.surrogate=function", "objective.surrogate.path=my_loss.py:mime"],
            "my_loss.py has no 'mime'; did you mean 'mine'?",
        ),
        (
            [MINE, "objective.surrogate.options.cup=3"],
            "objective.surrogate.options.cup=3: objective.surrogate.options of my_loss.py:mine: cup is not an option; "
            "did you mean cap?",
        ),
        (
            [MINE, "objective.surrogate.options.cap=high"],
            "objective.surrogate.options of my_loss.py:mine: cap: found the text 'high', expected a number",
        ),
        (
            ["objective.surrogate={type: function, path: my_loss.py:count}"],
            "objective.surrogate.options of my_loss.py:count: k is missing and has no default; expected an integer",
        ),
        (
            ["objective.surrogate={type: function, path: my_loss.py:mean_of}"],
            "surrogate my_loss.py:mean_of: on a small batch it returned loss_N of shape (); expected one number",
        ),
        (
            ["off_policy_mask={type: function, path: my_loss.py:mine}"],
            "off_policy_mask.path: my_loss.py:mine is declared as surrogate; off_policy_mask takes masks",
        ),
        (
            ["objective.surrogate.path=my_loss.py:mine"],
            "objective.surrogate.path is not an option of ppo_clip; function has it: "
            "'objective.surrogate={type: function, path: ...}'",
        ),
        (
            ["objective.surrogate={type: function, path: object:mine}"],
            "object:mine was given as a Python object that no file has, and this process has none of that name: give",
        ),
    ],
)
def test_what_is_refused(arguments: list[str], line: str) -> None:
    text = refused(*arguments)
    assert text.startswith("1 error in the configuration:\n- ")
    assert line in text


def test_it_is_refused_with_everything_else_and_its_place(folder: Path) -> None:
    (folder / "my.yaml").write_text(
        "objective:\n  surrogate:\n    type: function\n    path: my_loss.py:mine\n    options:\n      cap: five\n"
        "advantage: {estimator: {type: function, path: 'my_loss.py:none'}}\n"
    )
    lines = refused("my.yaml", "run.stops=3").splitlines()
    assert lines[0] == "3 errors in the configuration:"
    assert lines[1].startswith("- run.stops=3: run.stops is not an option")
    assert any(line.startswith("- my.yaml:6: objective.surrogate.options of my_loss.py:mine: cap: ") for line in lines)
    assert any(line.startswith("- my.yaml:7: advantage.estimator.path: my_loss.py has no 'none'") for line in lines)


def test_options_join_one_by_one_and_go_with_their_code() -> None:
    later = compose_train_config(
        [MINE, "objective.surrogate.options={cap: 3, side: up}", "objective.surrogate.options.cap=4"]
    )
    assert later.objective.surrogate.model_dump()["options"] == {"cap": 4.0, "side": "up"}
    other = ["objective.surrogate={type: function, path: my_loss.py:count, options: {k: 2}}"]
    changed = compose_train_config([MINE, "objective.surrogate.options.cap=3", *other])
    assert changed.objective.surrogate.model_dump()["options"] == {"k": 2}


def test_what_is_written_is_read_back(folder: Path) -> None:
    config = compose_train_config(
        [
            MINE,
            "objective.surrogate.options.cap=3",
            "advantage.estimator={type: function, path: 'my_loss:centred', options: {times: 2}}",
            "off_policy_mask={type: function, path: my_loss.py:good}",
        ]
    )
    (folder / "config.yaml").write_text(text := dump_config(config))
    assert compose_train_config(["config.yaml"]) == config
    assert "    path: my_loss.py:mine\n    options:\n      cap: 3.0\n      side: both\n" in text
    assert "off_policy_mask:\n  type: function\n  path: my_loss.py:good\n" in text
    assert TrainConfig.model_validate(config.model_dump()) == config
    assert compose_train_config([config]) == config
    assert compose_train_config([{"objective": config.objective}, {"run.steps": 3}]).objective == config.objective


def test_explain_shows_it_under_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        MINE,
        "objective.surrogate.options.cap=3",
        "advantage.estimator={type: function, path: my_loss:centred}",
    ]
    text = to_text(explained := explain(compose_to_explain(arguments)))
    assert explained.equation.objective.endswith("[ min(r, 3)·A ]")
    assert "\n  A       1·(R - mean(R))\n" in text
    assert "+  mine: A cap on the ratio [my_loss.py:mine, sha256 " in text
    assert "objective.surrogate=function objective.surrogate.path=my_loss.py:mine" in text
    assert "objective.surrogate.options.cap=3.0" in text
    names = [technique["name"] for technique in to_json(explained)["techniques"]]
    assert names[-2:] == ["centred", "mine"]
    assert not explained.refused
    # A program that reads the standard output reads what groupwise writes alone.
    assert "printed by" not in capsys.readouterr().out


def test_explain_says_what_train_refuses() -> None:
    explained = explain(compose_to_explain(["objective.surrogate={type: function, path: my_loss.py:mean_of}"]))
    assert explained.refused
    assert "error: surrogate my_loss.py:mean_of: on a small batch" in to_text(explained)


def test_claims_are_those_of_any_surrogate() -> None:
    """Without `bounds_ratio` nothing keeps the policy near, which several optimizer steps need."""
    config = compose_train_config([MINE, "batch.epochs_per_step=2"])
    texts = [finding.message for finding in contradictions(config) if finding.level == "warning"]
    assert any("nothing keeps the policy near" in text for text in texts)


def test_without_code_of_ones_own_no_torch_is_loaded() -> None:
    code = "import sys, groupwise; groupwise.load_config('demo'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# Objects


def local(factor: float) -> Any:
    def mine(inputs: groupwise.SurrogateInputs, times: float = 1.0) -> Any:
        return -factor * times * inputs.ratio_N * inputs.advantages_N

    return mine


class Halved(groupwise.Surrogate):
    """Half of it."""

    share: float = 0.5

    def loss(self, inputs: groupwise.SurrogateInputs) -> groupwise.SurrogateOutputs:
        nowhere_N = inputs.ratio_N < 0
        return groupwise.SurrogateOutputs(-self.share * inputs.ratio_N * inputs.advantages_N, nowhere_N, nowhere_N)

    def formula(self, ratio_is_one: bool) -> str:
        return f"{self.share}·{'A' if ratio_is_one else 'r·A'}"


def test_objects_are_options() -> None:
    for config in (
        groupwise.load_config("demo", objective={"surrogate": local(2.0)}),
        groupwise.load_config("demo", **{"objective.surrogate": local(2.0)}),
        compose_train_config(["demo", {"objective": {"surrogate": local(2.0)}}]),
        TrainConfig.model_validate({"objective": {"surrogate": local(2.0)}}),
    ):
        assert config.objective.surrogate.model_dump() == {
            "type": "function",
            "path": "object:mine",
            "options": {"times": 1.0},
        }
    text = refused("demo", {"objective": {"surrogate": lambda inputs: inputs.ratio_N.sum()}})
    assert "surrogate object:<lambda>: on a small batch it returned loss_N of shape ()" in text
    assert "optimizer.lr: found function, expected" in refused("demo", {"optimizer": {"lr": local(1.0)}})


def test_a_class_may_be_given_with_its_options() -> None:
    by_instance = groupwise.load_config("demo", objective={"surrogate": Halved(type="halved", share=0.25)})
    stated = by_instance.objective.surrogate.model_dump()
    assert stated["options"] == {"share": 0.25}
    assert by_instance.objective.surrogate.formula(False) == "0.25·r·A"
    by_class = groupwise.load_config("demo", objective={"surrogate": Halved})
    assert by_class.objective.surrogate.model_dump()["options"] == {"share": 0.5}
    # It can be imported, so that a file has it.
    assert stated["path"] == "tests.config.test_own_techniques:Halved"


def test_an_object_is_known_to_this_process_alone(folder: Path) -> None:
    config = groupwise.load_config("demo", objective={"surrogate": local(2.0)})
    (folder / "config.yaml").write_text(dump_config(config))
    assert compose_train_config(["config.yaml"]).objective == config.objective
    code = "import groupwise; groupwise.load_config('config.yaml')"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "object:mine was given as a Python object that no file has" in failed.stderr


def test_errors_have_the_place_in_the_users_file() -> None:
    surrogate: Any = compose_train_config([MINE]).objective.surrogate
    with pytest.raises(OwnCodeError) as caught:
        surrogate.loss(None)
    number = 1 + CODE.splitlines().index("    return -inputs.ratio_N.clamp(max=cap) * inputs.advantages_N")
    assert "surrogate my_loss.py:mine failed: AttributeError: " in str(caught.value)
    assert f"my_loss.py:{number})" in str(caught.value)
