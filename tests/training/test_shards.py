"""Weights divided among ranks by FSDP2: what one process does, checkpoints for any number of ranks, and ends."""

import json
import os
import signal
from pathlib import Path
from subprocess import Popen

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from groupwise.track.rollouts import read_rollouts, rollout_files
from tests.support import run_ranks
from tests.support.commands import SMALL
from tests.support.tiny import relative_difference
from tests.training.test_ranks_runs import (
    RECIPES,
    THREE,
    begun,
    comparable,
    ended,
    list_of,
    made_once,
    metrics,
    metrics_so_far,
    same_rollouts,
    torchrun,
)

pytestmark = pytest.mark.slow

DIVIDED = "model.shard=full"
LORA = ["model.adapter.type=lora", "model.adapter.rank=4", "model.adapter.alpha=8"]

# What goes through the weights in ways of its own.
MORE = {
    "reference": ["grpo", "kl.coefficient=0.05", "kl.refresh_reference_every_steps=2", "batch.epochs_per_step=2"],
    "checkpointed": ["grpo", "batch.activation_checkpointing=true", "batch.micro_batch_tokens=100"],
    "plain": ["grpo", "model.backend=plain"],
    "lora": ["grpo", *LORA, "kl.coefficient=0.05", "model.save=both"],
    "decayed": ["grpo", "optimizer.weight_decay=0.1", "optimizer.decay_exempt=norms_and_biases"],
    "frozen": ["grpo", "model.trainable=all_but_embeddings"],
    "uneven": ["grpo", "batch.prompts_per_step=1", "batch.micro_batch_tokens=60"],
}
ALL = {**RECIPES, **MORE}
# What four ranks do as well: they share groups of which there are no more than four.
BY_FOUR = ("grpo", "minibatches", "gdpo", *MORE)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """All recipes in one process, and divided among two and four."""
    folder = made_once(tmp_path_factory, "divided", run_all)
    return {ranks: folder / str(ranks) for ranks in (1, 2, 4)}


def run_all(folder: Path) -> None:
    for ranks in (1, 2, 4):
        chosen = {name: options for name, options in ALL.items() if ranks < 4 or name in BY_FOUR}
        runs = [f"{name}={','.join([options[0], *THREE, DIVIDED, *options[1:]])}" for name, options in chosen.items()]
        code, out = ended(torchrun(ranks, run_ranks.__file__, str(folder / str(ranks)), *runs))
        assert code == 0, out


@pytest.mark.parametrize(("name", "ranks"), [*((name, 2) for name in ALL), *((name, 4) for name in BY_FOUR)])
def test_divided_weights_change_nothing_but_rounding(folders: dict[int, Path], name: str, ranks: int) -> None:
    one, several = folders[1] / name, folders[ranks] / name
    before, after = metrics(one), metrics(several)
    assert len(before) == len(after) == 3
    assert after[0]["optimizer/grad_norm"] == pytest.approx(before[0]["optimizer/grad_norm"], rel=1e-5)
    for first, second in zip(before, after, strict=True):
        assert comparable(second) == pytest.approx(comparable(first), rel=2e-3, abs=5e-5)
    same_rollouts(*(read_rollouts(rollout_files(folder)[2]) for folder in (one, several)))
    weights = [load_file(folder / "model" / "model.safetensors") for folder in (one, several)]
    # AdamW makes a step of full size of a gradient that is nearly 0, whatever its sign.
    assert relative_difference(weights[1], weights[0]) < 1e-4
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (one, several)]
    assert summaries[1]["after"] == summaries[0]["after"]
    assert summaries[1]["before"] == summaries[0]["before"]


def test_what_divided_runs_save_is_what_others_do(folders: dict[int, Path]) -> None:
    for place in ("reference/model", "lora/model", "lora/adapter"):
        one, several = (folders[ranks] / place for ranks in (1, 4))
        assert {file.name for file in one.iterdir()} == {file.name for file in several.iterdir()}
        for file in one.glob("*.safetensors"):
            first, second = load_file(file), load_file(several / file.name)
            assert {name: (t.shape, t.dtype) for name, t in first.items()} == {
                name: (t.shape, t.dtype) for name, t in second.items()
            }
    loaded = AutoModelForCausalLM.from_pretrained(folders[4] / "reference" / "model")
    assert all(bool(weight.isfinite().all()) for weight in loaded.parameters())


def test_each_rank_writes_its_part_and_no_more(folders: dict[int, Path]) -> None:
    checkpoint = sorted((folders[4] / "reference" / "checkpoints").iterdir())[-1]
    files = sorted(checkpoint.glob("shard-*.safetensors"))
    assert len(files) == 4
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    assert manifest["tensors"] == [file.name for file in files]
    whole = sorted((folders[1] / "reference" / "checkpoints").iterdir())[-1]
    expected = sum(tensor.numel() for file in whole.glob("*.safetensors") for tensor in load_file(file).values())
    sizes = [sum(tensor.numel() for tensor in load_file(file).values()) for file in files]
    assert sum(sizes) == expected
    # Rows are dealt out whole: a rank may have one more of each weight.
    assert max(sizes) < 0.3 * expected


OPTIONS = ["grpo", *SMALL, "kl.coefficient=0.05", "kl.refresh_reference_every_steps=2", "run.checkpoint_every_steps=1"]


def test_a_checkpoint_is_read_by_any_number_of_ranks_and_back(tmp_path: Path) -> None:
    """From 2 ranks to 1, to 4, to 2 that hold all, and to 2 again: weights and moments are the same bits each time."""
    output = tmp_path / "run"
    code, out = ended(torchrun(2, "-m", "groupwise", "train", *OPTIONS, DIVIDED, "run.steps=2", f"run.output={output}"))
    assert code == 0, out
    for ranks, shard, steps in ((1, "full", 3), (4, "full", 4), (2, "none", 5), (2, "full", 6)):
        before = whole_tensors(newest(output))
        code, out = ended(
            torchrun(
                ranks, "-m", "groupwise", "train", "--resume", str(output), f"run.steps={steps}", f"model.shard={shard}"
            )
        )
        assert code == 0, out
        assert f"resumed from step {steps - 1} of {steps}" in out
        # The step before is there still: what was read is what it says.
        again = whole_tensors(output / "checkpoints" / f"step_{steps - 1:06d}")
        assert before.keys() == again.keys()
        assert all(torch.equal(before[name], again[name]) for name in before)
    one = tmp_path / "one"
    code, out = ended(torchrun(1, "-m", "groupwise", "train", *OPTIONS, "run.steps=6", f"run.output={one}"))
    assert code == 0, out
    for first, second in zip(metrics(one), metrics(output), strict=True):
        assert comparable(second) == pytest.approx(comparable(first), rel=5e-3, abs=1e-4)


def resuming(output: Path, ranks: int, *options: str) -> Popen[str]:
    return torchrun(ranks, "-m", "groupwise", "train", "--resume", str(output), *options)


def newest(output: Path) -> Path:
    return sorted((output / "checkpoints").iterdir())[-1]


def whole_tensors(checkpoint: Path) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint, put together from the rows of each file by what its header says of them."""
    from safetensors import safe_open

    made: dict[str, torch.Tensor] = {}
    for path in sorted(checkpoint.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            offsets = json.loads((file.metadata() or {}).get("DCP_SHARDING_INFO", "{}"))
            for key in file.keys():  # noqa: SIM118
                name = key if "safetensors/" in key else f"{path.name}/{key}"
                tensor, start = file.get_tensor(key), offsets.get(key, {}).get("saved_offsets", [])
                if not start or not any(start):
                    made.setdefault(name, tensor)
                    made[name] = tensor if len(tensor.shape) == 0 else torch.cat([tensor, made[name][len(tensor) :]])
                else:
                    made[name] = torch.cat([made[name][: start[0]], tensor])
    return made


@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_to_one_rank_ends_all_with_a_checkpoint_of_all(tmp_path: Path, rank: int) -> None:
    process, pids = begun(tmp_path, DIVIDED)
    os.kill(pids[rank], signal.SIGTERM)
    _, out = ended(process, 120)
    assert "exitcode  : 143" in out
    assert out.count("stopped after step ") == 1
    (checkpoint,) = list_of(tmp_path)
    done = int(checkpoint.name.removeprefix("step_"))
    assert done == len(metrics_so_far(tmp_path / "run"))
    code, out = ended(resuming(tmp_path / "run", 1, f"run.steps={done + 1}"))
    assert code == 0, out
    assert f"resumed from step {done}" in out


def test_a_rank_that_is_killed_ends_the_others_soon(tmp_path: Path) -> None:
    process, pids = begun(tmp_path, DIVIDED, "run.checkpoint_every_steps=1", ranks=3)
    os.kill(pids[1], signal.SIGKILL)
    _, out = ended(process, 90)
    # The launcher may end the others before they notice.
    assert "is gone" in out or "SIGTERM" in out
    code, out = ended(resuming(tmp_path / "run", 2, "run.steps=6"))
    assert code == 0, out


def test_a_rank_that_fails_in_a_pass_is_named_by_the_others(tmp_path: Path) -> None:
    fails = tmp_path / "fails"
    script = tmp_path / "failing.py"
    script.write_text(f"""
import os, sys
from pathlib import Path
from groupwise.cli import main
from groupwise.training import update
usual = update.policy_loss
def policy_loss(*arguments):
    if os.environ["RANK"] == "1" and Path({str(fails)!r}).exists():
        raise ValueError("the loss is broken")
    return usual(*arguments)
update.policy_loss = policy_loss
sys.argv[0] = "groupwise"
main()
""")
    process, _ = begun(tmp_path, DIVIDED, "run.deadline_seconds=20", command=[str(script)])
    fails.touch()
    _, out = ended(process, 120)
    assert "error: rank 1 of 2, at micro-batch 1 of " in out
    assert "the loss is broken" in out
