"""Runs with adapters: what they train, keep, resume, leave and can be continued from."""

import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import groupwise
from groupwise.config.compose import compose_train_config
from groupwise.errors import DataError
from groupwise.explaining.report import explain
from groupwise.memory.live_bytes import LiveBytes
from groupwise.memory.needs import needs_of
from groupwise.memory.pass_memory import PassMemory, Shape, run_pass
from groupwise.model.load import load_policy
from groupwise.model.reference import fingerprint_weights
from groupwise.model.size import size_of
from groupwise.rollout.engine import SampleRequest, SamplingParams, make_engine
from groupwise.training.optimizer import make_optimizer
from groupwise.training.setup import configured_policy
from tests.support.commands import SMALL, tree
from tests.support.commands import groupwise as command
from tests.support.runs import UNMEASURED, Quiet, interrupt_at, metrics, resume, train

LORA = ["model.adapter={type: lora, rank: 4}", "optimizer.lr=1e-2"]
BUNDLED = load_policy("bundled")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that leaves adapters and the merged model, with a penalty towards its reference."""
    torch.set_num_threads(1)
    output = tmp_path_factory.mktemp("lora") / "run"
    train(output, *LORA, "model.save=both", "kl.coefficient=0.05", options=SMALL)
    return output


def weights_in(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path / "checkpoints" / "step_000004" / "weights.safetensors")


def test_checkpoints_hold_adapters_alone(finished: Path) -> None:
    names = set(weights_in(finished))
    assert len(names) == 2 * 7 * 4
    assert all(".lora_" in name for name in names)
    moments = load_file(finished / "checkpoints" / "step_000004" / "optimizer.safetensors")
    assert {key.partition("/")[2] for key in moments} == names


def test_what_a_run_leaves(finished: Path) -> None:
    summary = json.loads((finished / "summary.json").read_text())
    assert summary["model"] == str(finished / "model")
    assert summary["before"]["greedy"]["accuracy"]["n"] == 16
    merged = AutoModelForCausalLM.from_pretrained(finished / "model")
    adapters = peft.PeftModel.from_pretrained(load_policy("bundled").model, finished / "adapter").merge_and_unload()
    for name, weight in merged.named_parameters():
        assert torch.allclose(weight, adapters.get_parameter(name), rtol=0, atol=1e-6), name
    moved = [n for n, w in merged.named_parameters() if not torch.equal(w, BUNDLED.model.get_parameter(n))]
    assert sorted({name.rpartition(".")[0].rpartition(".")[2] for name in moved}) == [
        "down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj",
    ]  # fmt: skip
    saved = load_file(finished / "adapter" / "adapter_model.safetensors")
    for name, tensor in weights_in(finished).items():
        assert torch.equal(saved["base_model.model." + name.replace(".default", "")], tensor)
    card = ModelCard.load(finished / "adapter" / "README.md")
    assert card.data.library_name == "peft"
    assert "lora" in card.data.tags
    assert "LoRA (Hu et al." in card.text


def test_the_reference_is_the_model_without_them(finished: Path) -> None:
    """The penalty of step 1 is 0, and grows; the reference is checked at every checkpoint."""
    lines = metrics(finished)
    assert lines[0]["policy/kl_ref_k3"] < 1e-8
    assert lines[-1]["policy/kl_ref_k3"] > 1e-6


def test_the_measurement_before_is_that_of_the_model(finished: Path, tmp_path: Path) -> None:
    train(tmp_path / "full", "kl.coefficient=0.05", options=SMALL)
    one, other = (json.loads((run / "summary.json").read_text())["before"] for run in (finished, tmp_path / "full"))
    assert one == other
    assert metrics(finished)[0]["reward/total/mean"] == metrics(tmp_path / "full")[0]["reward/total/mean"]


@pytest.mark.parametrize(
    "more",
    [[], ["kl.coefficient=0.05", "kl.refresh_reference_every_steps=2"], ["model.adapter.dora=true"]],
    ids=["plain", "moving reference", "dora"],
)
def test_a_resumed_run_is_the_uninterrupted_one(more: list[str], tmp_path: Path) -> None:
    options = [*LORA, *more]
    train(tmp_path / "whole", *options)
    train(tmp_path / "cut", *options, reporter=Quiet(interrupt_at(3)))
    assert not (tmp_path / "cut" / "adapter").exists()
    resume(tmp_path / "cut")
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    for folder in ("adapter", "rollouts"):
        ours, theirs = ({**tree(tmp_path / run / folder), "README.md": b""} for run in ("cut", "whole"))
        assert ours == theirs
    checkpoints = [tmp_path / run / "checkpoints" / "step_000004" for run in ("cut", "whole")]
    names = {file.name for file in checkpoints[1].glob("*.safetensors")}
    assert ("reference.safetensors" in names) == ("refresh" in str(more))
    for name in names:
        assert (checkpoints[0] / name).read_bytes() == (checkpoints[1] / name).read_bytes()
    if "reference.safetensors" in names:
        assert load_file(checkpoints[0] / "reference.safetensors").keys() == weights_in(tmp_path / "cut").keys()


def test_adapters_are_continued(finished: Path, tmp_path: Path) -> None:
    path = f"model.adapter={{type: saved, path: {finished / 'adapter'}}}"
    train(tmp_path / "more", path, "optimizer.lr=1e-2", "model.save=both", "kl.coefficient=0.05")
    # Their policy at step 0 is the reference, not the model without them.
    assert metrics(tmp_path / "more")[0]["policy/kl_ref_k3"] < 1e-8
    begun = json.loads((tmp_path / "more" / "context.json").read_text())["initial_weights"]
    config = compose_train_config([str(tmp_path / "more" / "config.yaml")])
    assert fingerprint_weights(configured_policy(config)) == begun
    first, second = (load_file(run / "adapter" / "adapter_model.safetensors") for run in (finished, tmp_path / "more"))
    assert first.keys() == second.keys()
    assert any(not torch.equal(first[name], second[name]) for name in first)
    shown = json.loads((tmp_path / "more" / "adapter" / "adapter_config.json").read_text())
    assert (shown["r"], shown["lora_alpha"]) == (4, 32)


def test_a_folder_of_adapters_can_be_measured(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, alone = (
        command(capsys, "eval", str(finished / name), "--limit", "6", "--samples", "2", "--json", "run.threads=1")
        for name in ("model", "adapter")
    )
    assert whole.code == alone.code == 0
    measured = [json.loads(outcome.out)["measured"]["greedy"]["accuracy"]["value"] for outcome in (whole, alone)]
    assert measured[0] == measured[1]
    asked = command(capsys, "sample", str(finished / "adapter"), "3 + 4 = ?", "--temperature", "0", "--json")
    given = command(capsys, "sample", "bundled", "3 + 4 = ?", "--temperature", "0", "--json",
                    f"model.adapter={{type: saved, path: {finished / 'adapter'}}}")  # fmt: skip
    texts = [json.loads(outcome.out)[0]["text"] for outcome in (asked, given)]
    assert texts[0] == texts[1]


def test_where_the_model_would_be(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text((finished / "adapter" / "adapter_config.json").read_text())
    with pytest.raises(DataError, match=r"did you mean the adapters in '.*adapter'\?"):
        load_policy(str(tmp_path / "model"))


# In Python


def test_a_peft_model_is_continued(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base = AutoModelForCausalLM.from_pretrained(BUNDLED.model.name_or_path)
    model = peft.PeftModel.from_pretrained(base, finished / "adapter")
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    tokenizer = AutoTokenizer.from_pretrained(finished / "adapter")
    options: dict[str, Any] = dict(option.split("=", 1) for option in UNMEASURED if not option.startswith("model.path"))
    options = {key: json.loads(value) for key, value in options.items()}
    run = groupwise.train("demo", model=model, tokenizer=tokenizer, output="given", quiet=True, **options)
    assert all(torch.equal(before[name], weight) for name, weight in model.named_parameters())
    path = f"model.adapter={{type: saved, path: {finished / 'adapter'}}}"
    train(tmp_path / "same", path, *(f"{key}={value}" for key, value in options.items()), options=["demo"])
    ours, theirs = (
        load_file(folder / "adapter" / "adapter_model.safetensors") for folder in (run.folder, Path("same"))
    )
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert run.model_path == run.folder / "adapter"
    trained, _ = run.load_model()
    merged = peft.PeftModel.from_pretrained(load_policy("bundled").model, run.model_path).merge_and_unload()
    for name, weight in trained.named_parameters():
        assert torch.allclose(weight, merged.get_parameter(name), rtol=0, atol=1e-6)
    assert trained(torch.arange(3, 9).unsqueeze(0)).logits.shape[1] == 6


# What it costs


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_bytes_that_are_counted(dtype: str) -> None:
    config = compose_train_config(
        [*SMALL, *LORA, f"model.compute_dtype={dtype}", "kl.coefficient=0.1", "objective.old_logps=trainer"]
    )
    policy = configured_policy(config)
    size = size_of(policy.model)
    # 96 wide, 256 in the MLP, 3 heads and 1 key head of 32, 4 layers.
    trained = 4 * 4 * ((96 + 96) * 2 + (96 + 32) * 2 + (96 + 256) * 3)
    needs = needs_of(config, size)
    assert trained == sum(weight.numel() for _, weight in policy.trainable())
    assert (needs.gradient, needs.moments, needs.reference) == (4 * trained, 8 * trained, 4 * trained)
    assert needs.weights == sum(weight.nbytes for weight in policy.model.parameters())
    optimizer = make_optimizer(policy, config)
    for _, weight in policy.trainable():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    moments = [tensor for state in optimizer.state.values() for key, tensor in state.items() if key != "step"]
    assert sum(tensor.nbytes for tensor in moments) == needs.moments
    alive = LiveBytes()
    with alive:
        engine = make_engine(config, policy)
        copied = sum(weight.nbytes for weight in engine._own.values())  # type: ignore[attr-defined]
        engine.generate([SampleRequest(torch.arange(3, 12).numpy(), (1, 2, 3))], SamplingParams(1.0, 20, ()))
    assert needs.engine.weights == copied
    assert alive.now >= copied


def test_passes_need_no_more_than_is_counted() -> None:
    config = compose_train_config([*SMALL, *LORA])
    policy, shape = configured_policy(config), Shape(40, 60, 8, 2)
    _, timeline = run_pass(policy, config, shape, config.batch.logits_chunk_tokens)
    assert 0.9 * max(timeline) < PassMemory(policy, config).bytes(shape) < 1.3 * max(timeline)


def test_explained_and_planned(tmp_path: Path) -> None:
    reporter = Quiet()
    train(tmp_path / "run", *LORA, "run.steps=1", reporter=reporter)
    base = size_of(BUNDLED.model).parameters
    shown = f"model     bundled: 0.03 M trained weights of adapters over {base / 1e6:.2f} M"
    assert any(note.startswith(shown) for note in reporter.notes)
    explained = explain(compose_train_config([*SMALL, *LORA, "kl.coefficient=0.1"]))
    costs = {cost.name: cost.quantity for cost in explained.costs}
    trained = sum(weight.numel() for _, weight in configured_policy(explained.config).trainable())
    assert costs["gradient and AdamW moments"] == 12 * trained
    assert costs["reference model"] == 4 * trained
    assert f"{trained / 1e6:.2f} M of adapters are trained" in str(explained)
    missing = explain(compose_train_config([*SMALL, "model.adapter={type: saved, path: nowhere}"]))
    assert "the adapters in 'nowhere' cannot be read" in str(missing)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["model.save=both"], "model.save=both has no effect with model.adapter=none"),
        (["model.weights_dtype=bfloat16"], "model.weights_dtype=bfloat16 has no effect with model.adapter=none"),
        ([*LORA, "model.trainable=all_but_embeddings"], "model.trainable=all_but_embeddings has no effect"),
        ([*LORA, "model.save_dtype=bfloat16"], "model.save_dtype=bfloat16 has no effect with model.save=adapter"),
        (["model.adapter={type: lora, dropout: 0.1}"], "model.adapter.dropout is not an option: there is no dropout"),
        (["model.adapter={type: lora, load_in_4bit: true}"], "is not an option: a base of 4 bits"),
        (["model.adapter.rnk=3"], "model.adapter.rnk is not an option"),
    ],
)
def test_options_that_contradict_each_other(options: list[str], said: str) -> None:
    with pytest.raises(groupwise.UsageError) as caught:
        compose_train_config([*SMALL, *options])
    assert said in str(caught.value)
