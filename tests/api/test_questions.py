"""What can be asked without training: the answers of the command line as objects."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

import groupwise
from tests.api.program import OPTIONS, PROBLEMS, Counted
from tests.support.commands import bundled_copy
from tests.support.commands import groupwise as command

FEW: dict[str, Any] = {"limit": 6, "samples": 2, "run.threads": 1, "sampling.max_new_tokens": 20}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_evaluate_says_what_the_command_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [{"question": f"{a} + 4 = ?", "answer": a + 4} for a in range(6)]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    small = ["--limit", "6", "--samples", "2", "run.threads=1", "sampling.max_new_tokens=20", "--json"]
    outcome = command(capsys, "eval", "bundled", "--problems", "test.jsonl", *small)
    expected = json.loads(outcome.out)
    by_path = groupwise.evaluate("bundled", "test.jsonl", **FEW)
    assert json.loads(json.dumps(by_path)) == expected
    in_memory = groupwise.evaluate("bundled", rows, rewards=[Counted()], **FEW)
    assert in_memory["measured"].keys() == expected["measured"].keys()
    assert in_memory["problems"] == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.jsonl"]
    with pytest.raises(groupwise.DataError, match=r"^eval_problems: the columns are not known"):
        groupwise.evaluate("bundled", [{"q": 1}], **FEW)


def test_evaluate_a_loaded_model_and_a_run(tmp_path: Path) -> None:
    named = AutoModelForCausalLM.from_pretrained(bundled_copy(tmp_path / "start"))
    loaded = groupwise.evaluate(named, **FEW)
    assert loaded["measured"] == groupwise.evaluate("bundled", **FEW)["measured"]
    run = groupwise.train(output="run", quiet=True, **{**OPTIONS, "problems.eval_problems": 6})
    assert groupwise.evaluate(run)["measured"] == json.loads(json.dumps(run.summary["after"]), object_hook=_integers)
    assert groupwise.evaluate(run, PROBLEMS, limit=4)["problems"] == 4
    other = groupwise.train(problems=PROBLEMS, output="other", quiet=True, **{**OPTIONS, "run.steps": 1})
    with pytest.raises(groupwise.UsageError, match="name problems to measure on"):
        groupwise.evaluate(other)


def _integers(data: dict[str, Any]) -> dict[Any, Any]:
    """The keys of pass@k as they were before they were JSON."""
    return {int(key) if key.isdigit() else key: value for key, value in data.items()}


def test_grade() -> None:
    assert groupwise.grade("so \\boxed{1/2}", "0.5").status == "correct"
    assert [verdict.status for verdict in groupwise.grade(["\\boxed{4}", "\\boxed{5}"], "4")] == ["correct", "wrong"]
    assert [verdict.score for verdict in groupwise.grade(["\\boxed{4}", "\\boxed{5}"], ["5", "5"])] == [0.0, 1.0]
    assert groupwise.grade("the answer is 4", "4", answer="boxed").status == "no_answer"
    assert groupwise.grade([], []) == []
    with pytest.raises(groupwise.UsageError, match="2 reference answers for 1 responses"):
        groupwise.grade(["4"], ["4", "5"])
    with pytest.raises(groupwise.UsageError, match="the options of the grader:\n- "):
        groupwise.grade("4", "4", anwser="boxed")


def test_grade_rows_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows: list[Any] = [{"response": "\\boxed{4}", "gold": "4"}, {"response": "\\boxed{7}", "gold": "4"}]
    strange: list[Any] = [3]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = [json.loads(line) for line in command(capsys, "grade", str(file), "--json").out.splitlines()]
    for verdicts in (groupwise.grade(rows), groupwise.grade(file), groupwise.grade(str(file))):
        assert [(verdict.status, verdict.extracted) for verdict in verdicts] == [
            (row["status"], row["extracted"]) for row in expected
        ]
    with pytest.raises(
        groupwise.DataError, match=r"rows: 2 rows could not be graded:\n- rows:2: no column gold.*\n- rows:3"
    ):
        groupwise.grade([*rows[:1], {"response": "4"}, *strange])
    file.write_text('{"response": "4"}\n')
    outcome = command(capsys, "grade", str(file))
    with pytest.raises(groupwise.DataError) as raised:
        groupwise.grade(file)
    assert f"error: {raised.value}" == outcome.err.strip()


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    explained = groupwise.explain("dapo", optimizer={"lr": 1e-5})
    assert f"{explained}\n" == command(capsys, "explain", "dapo", "optimizer.lr=1e-5").out
    assert not explained.refused
    assert f"{groupwise.explain()}\n" == command(capsys, "explain").out
    refused = groupwise.explain("grpo", **{"batch.samples_per_prompt": 1})
    assert refused.refused
    errors = [finding.keys[0] for finding in refused.findings if finding.level == "error"]
    assert errors == ["batch.samples_per_prompt", "advantage.estimator.std_ddof"]
    with pytest.raises(groupwise.UsageError, match=r"did you mean optimizer.lr"):
        groupwise.explain("grpo", lr=1e-5)


def test_load_config(tmp_path: Path) -> None:
    config = groupwise.load_config(["dapo", "run.steps=7"], optimizer={"lr": 1e-3}, **{"run.seed": 3})
    assert isinstance(config, groupwise.TrainConfig)
    assert (config.run.steps, config.run.seed, config.optimizer.lr) == (7, 3, 1e-3)
    assert groupwise.load_config(config) == config
    assert groupwise.load_config([config, {"run": {"steps": 9}}]).run.steps == 9
    assert groupwise.load_config(config.model_dump()) == config
    (tmp_path / "mine.yaml").write_text("run:\n  steps: 4\n")
    assert groupwise.load_config(tmp_path / "mine.yaml").run.steps == 4
    assert groupwise.load_config() == groupwise.TrainConfig()
    (tmp_path / "mine.yaml").write_text("run:\n  stpes: 4\n")
    with pytest.raises(groupwise.UsageError, match=r"mine.yaml:2: run.stpes is not an option; did you mean run.steps"):
        groupwise.load_config(tmp_path / "mine.yaml")
