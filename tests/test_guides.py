"""The guides say what happens: every command of the tutorial runs, the page on Qwen3 has the numbers of `explain`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from groupwise.track.metrics import METRICS
from tests.support.commands import environment, groupwise

DOCS = Path(__file__).parents[1] / "docs"
TUTORIAL = (DOCS / "tutorial.md").read_text(encoding="utf-8")
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_the_tutorial_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    """In an empty folder, with `groupwise` and `python` on the path as the tutorial asks."""
    programs, folder = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    folder.mkdir()
    for name, arguments in (("groupwise", " -m groupwise"), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable}{arguments} "$@"\n')
        program.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    commands = 0
    for language, title, text in FENCE.findall(TUTORIAL):
        if title:
            (folder / title).write_text(text, encoding="utf-8")
        elif language == "sh":
            for command in text.splitlines():
                done = subprocess.run(
                    command, shell=True, cwd=folder, env=environment(PATH=path), capture_output=True, text=True
                )
                assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
                commands += 1
    assert commands > 15

    # What the text says of these runs.
    summary = json.loads((folder / "runs" / "sums-001" / "summary.json").read_text(encoding="utf-8"))
    assert summary["after"]["sampled"]["accuracy"]["value"] > summary["before"]["sampled"]["accuracy"]["value"] + 0.15
    good, slow, wild, short = (rows_of(folder / "runs" / name) for name in ("sums-001", "slow", "wild", "short"))
    assert good[5]["policy/approx_kl_k3"] > 1e-5 > 1e-7 > max(row["policy/approx_kl_k3"] for row in slow)
    assert max(row.get("policy/approx_kl_k3", 0.0) for row in wild) > 0.1
    assert wild[-1]["groups/all_wrong"] > 0.9
    assert short[0]["completion/truncated_fraction"] > 0.3 > good[0]["completion/truncated_fraction"]


def test_metrics_of_the_tutorial_exist() -> None:
    known = {metric.name for metric in METRICS}
    patterns = [re.escape(name).replace(r"\{component\}", r"\w+") for name in known]
    named = set(re.findall(r"`([a-z]+(?:/[a-z_0-9]+)+)`", TUTORIAL)) | set(re.findall(r'"(\w+(?:/\w+)+)"', TUTORIAL))
    assert len(named) > 10
    assert {name for name in named if not any(re.fullmatch(pattern, name) for pattern in patterns)} == set()


QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "max_position_embeddings": 40960,
    "attention_bias": False,
}


def test_qwen3_on_gsm8k(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration has no finding, and the page has the numbers of `explain` for a model of this shape."""
    page = (DOCS / "qwen3-gsm8k.md").read_text(encoding="utf-8")
    ((_, _, text),) = [found for found in FENCE.findall(page) if found[0] == "yaml"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qwen3").mkdir()
    (tmp_path / "qwen3" / "config.json").write_text(json.dumps(QWEN3))
    (tmp_path / "qwen3-gsm8k.yaml").write_text(text, encoding="utf-8")
    outcome = groupwise(capsys, "explain", "qwen3-gsm8k.yaml", "model.path=qwen3")
    assert outcome.code == 0
    assert "findings: none" in outcome.out
    costs = dict(re.findall(r"^  ([a-z/A-Z ]+): ([\d.]+ GiB)", outcome.out, re.MULTILINE))
    assert set(costs) == {
        "weights",
        "gradient and AdamW moments",
        "copy of the last step",
        "engine copy",
        "key/value cache",
    }
    for size in costs.values():
        assert f"| {size} |" in page
    assert "596.05 M weights" in outcome.out
    assert "596.05 M weights" in page
