"""The commands: what they print, and that everything a user can get wrong ends in one clear message."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Gemma2Config, Gemma2ForCausalLM

from groupwise import __version__
from groupwise.config.compose import compose_train_config, list_recipes
from groupwise.errors import DataError
from groupwise.model import load
from groupwise.model.load import load_policy
from groupwise.model.save import save_model
from groupwise.track.run_folder import RunFolder
from tests.support.commands import SMALL, Outcome, bundled_copy, environment, groupwise, start, tree
from tests.support.tiny import build
from tests.view.runs import small_run

Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`groupwise …` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: groupwise(capsys, *arguments)


def refused(outcome: Outcome, code: int) -> str:
    """The one message of a command that did nothing."""
    assert outcome.code == code, outcome
    assert outcome.err.startswith("error: "), outcome.err
    assert outcome.err.count("error: ") == 1
    assert "Traceback" not in outcome.out + outcome.err
    return outcome.err


def train(run: Run, *arguments: str, code: int, folder: Path | None = None) -> str:
    """The message of `groupwise train` where it has to refuse, before anything was written."""
    folder = folder or Path.cwd()
    before = tree(folder)
    message = refused(run("train", *SMALL, *arguments), code)
    assert tree(folder) == before
    assert sorted(path.name for path in folder.iterdir()) == sorted({name.split("/")[0] for name in before})
    return message


# Configuration


def test_an_unknown_key_gets_a_suggestion(run: Run) -> None:
    message = train(run, "optimizer.learning_rat=1e-5", code=2)
    assert "1 error in the configuration" in message
    assert "optimizer.learning_rat" in message
    assert "did you mean optimizer.lr" in train(run, "lr=1e-5", code=2)
    assert "did you mean demo" in train(run, "dmo", code=2)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("run.steps=many", "an integer of at least 1"),
        ("run.steps=1.5", "an integer of at least 1"),
        ("optimizer.lr=fast", "a number of more than 0"),
        ("active_sampling.refill=maybe", "true or false"),
    ],
)
def test_a_mistyped_value_names_what_is_expected(run: Run, argument: str, expected: str) -> None:
    message = train(run, argument, code=2)
    assert argument.split("=")[0] in message
    assert expected in message


@pytest.mark.parametrize(
    "argument",
    ["optimizer.lr=-1", "optimizer.lr=.inf", "run.steps=0", "objective.surrogate.clip_low=-0.1", "optimizer.beta1=1"],
)
def test_an_impossible_value_is_refused(run: Run, argument: str) -> None:
    assert argument.split("=")[0] in train(run, argument, code=2)


def test_a_group_of_one_has_nothing_to_compare(run: Run) -> None:
    message = train(run, "batch.samples_per_prompt=1", code=2)
    assert "take at least 2 samples" in message


def test_all_errors_of_a_configuration_at_once(run: Run) -> None:
    Path("my.yaml").write_text("run:\n  stepz: 3\noptimizer:\n  lr: -1\nbatch:\n  samples_per_prompt: 1\n")
    message = train(run, "my.yaml", "sampling.temperature=hot", "batch.samples_per_prompt=1", code=2)
    assert "4 errors in the configuration" in message
    for part in ("my.yaml:2", "run.steps", "my.yaml:4", "sampling.temperature=hot", "batch.samples_per_prompt=1"):
        assert part in message


def test_a_number_in_scientific_notation_is_a_number(run: Run) -> None:
    Path("my.yaml").write_text("optimizer:\n  lr: 1e-5\n")
    outcome = run("config", "my.yaml", "optimizer.epsilon=1e-9")
    assert outcome.code == 0
    assert "lr: 1.0e-05" in outcome.out
    assert "epsilon: 1.0e-09" in outcome.out


def test_an_unknown_command_or_option(run: Run) -> None:
    assert run("trian").code == 2
    assert run("train", "--frobnicate").code == 2
    assert run("eval", "bundled", "--samples", "0").code == 2


@pytest.mark.parametrize(
    ("arguments", "cpu_seconds"),
    [
        (["--help"], 1.0),
        (["--version"], 1.0),
        (["config", "demo"], 1.0),
        (["config", "--keys"], 1.0),
        (["recipes"], 1.0),
        (["import", "trl", "trl.yaml"], 1.0),
        (["view", "run"], 1.0),
        (["report", "run"], 1.0),
        (["watch", "run"], 1.0),
    ],
)
def test_commands_without_a_model_answer_at_once_and_without_torch(
    arguments: list[str], cpu_seconds: float, tmp_path: Path
) -> None:
    (tmp_path / "trl.yaml").write_text("learning_rate: 1.0e-6\n")
    small_run(tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 1, "reward/total/mean": 0.5}\n')
    program = (
        f"import sys, time; sys.argv = ['groupwise', *{arguments}]\n"
        "import atexit; from groupwise.cli import main\n"
        "def report():\n"
        "    heavy = sorted({'torch', 'transformers'} & set(sys.modules))\n"
        "    print(time.process_time(), *heavy, file=sys.stderr)\n"
        "atexit.register(report); main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    seconds, *imported = done.stderr.split()
    assert imported == []
    # The bounds are for a quiet machine.
    assert float(seconds) < 3 * cpu_seconds


def test_version_and_help(run: Run) -> None:
    assert run("--version").out == f"groupwise {__version__}\n"
    assert "Group-relative policy optimisation" in run("--help").out
    for command in (
        ["train"],
        ["eval"],
        ["sample"],
        ["sft"],
        ["explain"],
        ["grade"],
        ["check"],
        ["config"],
        ["diagnose"],
        ["report"],
        ["view"],
        ["watch"],
        ["import", "trl"],
    ):
        outcome = run(*command, "--help")
        assert outcome.code == 0
        assert f"groupwise {' '.join(command)} " in outcome.out.partition("Examples:")[2] + " "


# Models


@pytest.mark.parametrize("path", ["/nowhere/at/all", "nowhere", "./nowhere", "../nowhere/deep", "nowhere.gguf"])
def test_a_missing_model_folder(run: Run, path: str) -> None:
    message = train(run, f"model.path={path}", code=3)
    assert re.search(r"there is no (model at|file) '", message)
    assert path in message


def test_a_missing_folder_that_looks_like_a_hub_id(run: Run) -> None:
    message = train(run, "model.path=models/mine", code=3)
    assert "'models/mine'" in message
    assert "no folder" in message


@pytest.mark.parametrize(
    ("removed", "expected"),
    [
        (("config.json",), "has no config.json"),
        (("model.safetensors",), r"has no weights: expected \*.safetensors"),
        (("tokenizer.json", "tokenizer_config.json"), "has no tokenizer"),
    ],
)
def test_a_model_folder_without_one_of_its_files(
    run: Run, tmp_path: Path, removed: tuple[str, ...], expected: str
) -> None:
    model = bundled_copy(tmp_path / "model")
    for name in removed:
        (model / name).unlink()
    message = train(run, f"model.path={model}", code=3)
    assert re.search(expected, message)
    assert str(model) in message


def test_pickled_weights_are_never_loaded(run: Run, tmp_path: Path) -> None:
    model = bundled_copy(tmp_path / "model")
    (model / "model.safetensors").unlink()
    # Unpickling this would make a folder.
    trap = b"cos\nmkdir\n(S'" + str(tmp_path / "owned").encode() + b"'\ntR."
    (model / "pytorch_model.bin").write_bytes(trap)
    message = train(run, f"model.path={model}", code=3, folder=tmp_path)
    assert "pytorch_model.bin, which is pickled and never loaded" in message
    assert not (tmp_path / "owned").exists()


def test_a_model_that_brings_code_is_refused(run: Run, tmp_path: Path) -> None:
    model = bundled_copy(tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    classes = {"AutoConfig": "theirs.Config", "AutoModelForCausalLM": "theirs.Model"}
    (model / "config.json").write_text(json.dumps({**config, "model_type": "theirs", "auto_map": classes}))
    (model / "theirs.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w')\n")
    message = train(run, f"model.path={model}", code=3)
    assert "built by code of its own repository, which is never run" in message
    assert not (tmp_path / "owned").exists()


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    path.write_bytes({"cut off": content[: len(content) // 2], "empty": b"", "text": b"not what it should be"}[how])


@pytest.mark.parametrize("how", ["cut off", "empty", "text"])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
def test_a_damaged_file_of_a_model(run: Run, tmp_path: Path, name: str, how: str) -> None:
    model = bundled_copy(tmp_path / "model")
    damage(model / name, how)
    message = train(run, f"model.path={model}", code=3)
    assert str(model) in message
    assert "cannot be loaded" in message


def test_weights_that_are_not_there_are_not_made_up(run: Run, tmp_path: Path) -> None:
    """Left alone, transformers draws them at random and goes on."""
    model = bundled_copy(tmp_path / "model")
    weights = load_file(model / "model.safetensors")
    missing = "model.layers.2.mlp.up_proj.weight"
    save_file({name: weight for name, weight in weights.items() if name != missing}, model / "model.safetensors")
    assert missing in train(run, f"model.path={model}", code=3)


def test_weights_of_another_shape(run: Run, tmp_path: Path) -> None:
    model = bundled_copy(tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "intermediate_size": 200}))
    assert str(model) in train(run, f"model.path={model}", code=3)


def test_a_token_that_the_model_does_not_have(run: Run, tmp_path: Path) -> None:
    model = bundled_copy(tmp_path / "model")
    tokenizer = load_policy("bundled").tokenizer
    tokenizer.add_tokens(["<extra>"])
    tokenizer.save_pretrained(model)
    message = train(run, f"model.path={model}", "prompt.system=Use <extra>.", code=3)
    assert "the token 512 ('<extra>'), and the model knows only 512" in message
    # An embedding that no prompt asks for is not missed.
    assert run("train", *SMALL, f"model.path={model}", "--dry-run").code == 0


def test_a_model_without_an_end_of_sequence_token(run: Run, tmp_path: Path) -> None:
    model = bundled_copy(tmp_path / "model")
    for name, keys in {
        "tokenizer_config.json": ["eos_token"],
        "config.json": ["eos_token_id"],
        "generation_config.json": ["eos_token_id"],
    }.items():
        content = json.loads((model / name).read_text())
        (model / name).write_text(json.dumps({key: value for key, value in content.items() if key not in keys}))
    assert "names no end-of-sequence token" in train(run, f"model.path={model}", code=3)


def test_a_tokenizer_without_a_chat_template(run: Run, tmp_path: Path) -> None:
    model = bundled_copy(tmp_path / "model")
    (model / "chat_template.jinja").unlink()
    assert "prompt.template=plain" in train(run, f"model.path={model}", code=3)
    assert run("train", *SMALL, f"model.path={model}", "prompt.template=plain", "--dry-run").code == 0


def test_a_tokenizer_without_a_pad_token_can_be_trained(run: Run, tmp_path: Path) -> None:
    """Nothing is padded with a token, so that none is needed."""
    model = bundled_copy(tmp_path / "model")
    for name in ("tokenizer_config.json", "config.json", "generation_config.json"):
        content = json.loads((model / name).read_text())
        kept = {key: value for key, value in content.items() if not key.startswith("pad_token")}
        (model / name).write_text(json.dumps(kept))
    assert run("train", *SMALL, f"model.path={model}", "--dry-run").code == 0


def test_code_that_comes_with_a_model_is_never_run(run: Run, tmp_path: Path) -> None:
    model = bundled_copy(tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    mapping = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    (model / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": mapping}))
    (model / "own.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'owned')!r}).mkdir()\n")
    began = time.monotonic()
    message = train(run, f"model.path={model}", code=3, folder=tmp_path)
    # Without a clear no, transformers asks on the terminal and waits for 15 seconds.
    assert time.monotonic() - began < 10
    assert "cannot be loaded" in message
    assert not (tmp_path / "owned").exists()


def soft_capped(folder: Path) -> Path:
    """A model that the packed attention cannot do right, with the bundled tokenizer."""
    policy = load_policy("bundled")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "eos_token_id": 2, "pad_token_id": 0}
    Gemma2ForCausalLM(Gemma2Config(vocab_size=512, **sizes, **heads)).save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    return folder


def test_an_architecture_that_cannot_be_packed_runs_plain_and_says_why(run: Run, tmp_path: Path) -> None:
    outcome = run("train", *SMALL, f"model.path={soft_capped(tmp_path / 'model')}")
    assert outcome.code == 0
    assert "backend   plain: this architecture uses soft-capped scores" in " ".join(outcome.out.split("\n"))


def test_nothing_to_train_is_an_error() -> None:
    model = build("llama")
    model.requires_grad_(False)
    with pytest.raises(DataError, match="no trainable weights"):
        load.choose_trainable(model, "all")


# Problems


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"question": "1+1", "answer": "2"}\n{"question": "1+2", "answer": \n', "problems.jsonl:2: not valid JSON"),
        ('{"query": "1+1", "solution": "2"}\n', "found query, solution in row 1; expected "),
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ('{"question": "1+1", "answer": null}\n', "problems.jsonl:1: answer: expected text or an integer, found null"),
    ],
)
def test_a_problem_file_that_cannot_be_used(run: Run, content: str, expected: str) -> None:
    Path("problems.jsonl").write_text(content)
    message = train(run, "problems.train=problems.jsonl", "problems.eval=arithmetic", code=3)
    assert expected in message


def test_a_problem_file_that_is_not_there(run: Run) -> None:
    assert "nowhere.jsonl: there is no such file" in train(
        run, "problems.train=nowhere.jsonl", "problems.eval=arithmetic", code=3
    )
    assert "nowhere.jsonl" in refused(run("eval", "bundled", "--problems", "nowhere.jsonl"), 3)


def test_a_named_column_that_is_not_there(run: Run) -> None:
    Path("problems.jsonl").write_text('{"question": "1+1", "answer": "2"}\n')
    message = train(
        run, "problems.train=problems.jsonl", "problems.columns.problem=text", "problems.eval=arithmetic", code=3
    )
    assert "no column 'text' as named by problems.columns.problem; found question, answer" in message


def test_a_prompt_longer_than_the_context(run: Run) -> None:
    rows = [{"question": "1+1", "answer": "2"}, {"question": "1 + 1 + " * 600, "answer": "600"}]
    Path("problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    message = train(run, "problems.train=problems.jsonl", "problems.eval=arithmetic", code=3)
    assert "the model's context of 1024" in message
    assert "- problems.jsonl:2: " in message
    assert "problems.jsonl:1" not in message
    assert "problems.jsonl:2: " in refused(run("eval", "bundled", "--problems", "problems.jsonl"), 3)


def test_completions_that_leave_no_room_for_any_prompt(run: Run) -> None:
    assert "lower sampling.max_new_tokens" in train(run, "sampling.max_new_tokens=1020", code=3)


def test_a_question_longer_than_the_context(run: Run) -> None:
    assert "context" in refused(run("sample", "bundled", "1 + 1 + " * 600), 3)
    assert "empty" in refused(run("sample", "bundled", "  "), 2)


@pytest.mark.parametrize("command", ["train", "eval"])
def test_answers_that_can_never_be_matched(run: Run, command: str) -> None:
    Path("problems.jsonl").write_text('{"question": "1+1", "answer": "two"}\n')
    if command == "train":
        options = [
            "problems.train=problems.jsonl",
            "problems.eval=arithmetic",
            "rewards.correctness.math.answer=last_number",
        ]
        message = train(run, *options, code=3)
    else:
        message = refused(
            run("eval", "bundled", "rewards.correctness.math.answer=last_number", "--problems", "problems.jsonl"), 3
        )
    assert "problems.jsonl:1" in message
    assert "is not a number" in message


# Run folders


def test_a_run_folder_is_never_overwritten(run: Run) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("precious")
    assert "exists already and is not overwritten" in train(run, "run.output=mine", code=2)
    Path("file").write_text("precious")
    assert "exists already" in train(run, "run.output=file", code=2)


def test_a_run_folder_that_cannot_be_made(run: Run) -> None:
    Path("file").write_text("precious")
    assert "file" in train(run, "run.output=file/below", code=2)


def test_an_existing_run_folder_is_refused_before_the_model_is_loaded(run: Run) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("precious")
    assert "exists already" in train(run, "run.output=mine", "model.path=/nowhere", code=2)


def test_resuming_what_is_no_run(run: Run) -> None:
    Path("other").mkdir()
    for path in ("nowhere", "other"):
        assert f"'{path}' is not the folder of a run" in refused(run("train", "--resume", path), 3)


def test_resuming_with_another_configuration(run: Run) -> None:
    begun = compose_train_config(["demo"])
    RunFolder.create("mine", "demo", lambda _path, _aside: begun).close()
    message = refused(run("train", "--resume", "mine", "optimizer.lr=1", "run.seed=3", "run.steps=9"), 2)
    assert "a resumed run keeps its configuration" in message
    assert "- run.seed: 0 when the run began, now 3\n- optimizer.lr: 0.0006 when the run began, now 1.0\n" in message
    assert "--allow-change run.seed,optimizer.lr" in message
    assert "run.steps: " not in message


def test_a_dry_run_of_a_resumed_run_is_refused(run: Run) -> None:
    """It would train."""
    assert "--dry-run" in refused(run("train", "--resume", "mine", "--dry-run"), 2)


# What is printed


def test_a_dry_run_shows_the_plan_and_makes_nothing(run: Run) -> None:
    outcome = run("train", "demo", "--dry-run")
    assert outcome.code == 0
    for part in ("threads ", "model     bundled: 0.4", "16 problems × 8 samples", "<|im_start|>user"):
        assert part in outcome.out
    assert list(Path.cwd().iterdir()) == []


def test_recipes_as_json(run: Run) -> None:
    outcome = run("recipes", "--json")
    recipes = json.loads(outcome.out)
    assert [recipe["name"] for recipe in recipes] == list(list_recipes())
    assert "demo" in [recipe["name"] for recipe in recipes]
    assert outcome.err == ""
    assert all(recipe["summary"] in run("recipes").out for recipe in recipes)


def test_an_evaluation_as_json_and_as_a_table(run: Run) -> None:
    arguments = ["eval", "bundled", "sampling.max_new_tokens=24", "run.threads=1", "--limit", "6", "--samples", "2"]
    outcome = run(*arguments, "--json")
    assert outcome.code == 0
    result = json.loads(outcome.out)
    assert result["problems"] == 6
    sampled = result["measured"]["sampled"]
    assert set(sampled["pass_at"]) == {"2"}
    for key in ("accuracy", "format_rate", "truncated"):
        assert sampled[key]["n"] == 6
        assert 0 <= sampled[key]["low"] <= sampled[key]["value"] <= sampled[key]["high"] <= 1
    table = run(*arguments).out
    for label in ("greedy", "sampled", "pass@2", "format kept", "truncated", "tokens"):
        assert label in table


def test_an_evaluation_of_a_file(run: Run) -> None:
    Path("problems.jsonl").write_text('{"question": "1 + 1 = ?", "answer": "2"}\n' * 1)
    outcome = run("eval", "bundled", "sampling.max_new_tokens=16", "--problems", "problems.jsonl", "--json")
    assert json.loads(outcome.out)["problems"] == 1


def test_samples_as_json_and_as_text(run: Run) -> None:
    arguments = ["sample", "bundled", "3 + 4 = ?", "sampling.max_new_tokens=16", "-n", "3"]
    outcome = run(*arguments, "--json")
    answers = json.loads(outcome.out)
    assert len(answers) == 3
    for answer in answers:
        assert set(answer) == {"text", "tokens", "finish_reason", "mean_logp"}
        assert (answer["finish_reason"] == "length") == (not answer["text"].endswith("<|im_end|>"))
        assert answer["mean_logp"] < 0
    text = run(*arguments).out
    assert all(answer["text"].splitlines()[0] in text for answer in answers)
    greedy = json.loads(run(*arguments, "--temperature", "0", "--json").out)
    assert greedy[0] == greedy[1] == greedy[2]


def seconds_to_the_first_step(folder: Path, name: str) -> float:
    began = time.monotonic()
    process = start(folder, "train", "demo", "run.steps=1", "problems.eval_problems=0", f"run.output={name}")
    assert process.stdout is not None
    found = [time.monotonic() - began for line in process.stdout if line.startswith("step 1/1")]
    assert process.wait() == 0
    return found[0]


@pytest.mark.slow
def test_the_first_step_is_done_within_ten_seconds(tmp_path: Path) -> None:
    """From the start of the process; the best of three, since a test does not have the machine for itself."""
    assert any(seconds_to_the_first_step(tmp_path, f"run-{attempt}") < 10 for attempt in range(3))


def test_a_saved_model_is_a_model_like_any_other(tmp_path: Path) -> None:
    save_model(load_policy("bundled"), tmp_path / "model")
    again = load_policy(str(tmp_path / "model"))
    first = load_policy("bundled")
    assert again.stop_ids == first.stop_ids
    assert again.think_ids == first.think_ids
    assert again.max_context_tokens == first.max_context_tokens == 1024
    weights = again.model.state_dict()
    assert all(torch.equal(weights[name], weight) for name, weight in first.model.state_dict().items())


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        (["eval", "bundled", "problems.eval_problems=4"], "--limit 4"),
        (["eval", "bundled", "problems.eval=toy_code"], "--problems toy_code"),
        (["eval", "bundled", "demo", "problems.eval_samples_per_prompt=2"], "--samples 2"),
        (["sample", "bundled", "1 + 1", "sampling.temperature=0"], "--temperature 0"),
        (["sample", "bundled", "1 + 1", "model.path=here"], "groupwise sample here"),
    ],
)
def test_a_key_that_an_option_of_the_command_sets_is_refused(run: Run, arguments: list[str], form: str) -> None:
    assert f"{arguments[-1]}: write it as `{form}`" in refused(run(*arguments), 2)


def test_a_run_given_for_its_model(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "model" / "config.json").write_text("{}")
    assert "it has no config.json; did you mean 'run/model'?" in refused(run("eval", "run"), 3)


def test_a_run_without_a_measurement_and_when_it_is_complete(run: Run) -> None:
    arguments = [*SMALL, "run.steps=1", "problems.eval_problems=0", "run.output=run"]
    outcome = run("train", "demo", *arguments)
    assert outcome.code == 0
    assert "problems  generated arithmetic; not measured" in outcome.out + outcome.err
    again = run("train", "--resume", "run")
    assert "to train further: groupwise train --resume run run.steps=N" in again.out + again.err
