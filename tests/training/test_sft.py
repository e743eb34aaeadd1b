"""Supervised fine-tuning: the loss, its constant normaliser, the order of the data, and errors in files."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from groupwise.config import SftConfig
from groupwise.errors import BrokenRunError, DataError, UsageError
from groupwise.model.load import Policy, load_policy
from groupwise.model.score import Scoring
from groupwise.training.learning_rate import lr_factor
from groupwise.training.sft import SftProgress, accumulate_gradient, build_optimizers, run_sft
from groupwise.training.sft_data import micro_batches, read_demonstrations, step_batches

ROWS: list[dict[str, Any]] = [
    {"prompt": "Compute 1 + 2 - 3.", "completion": "<think>1 + 2 = 3; 3 - 3 = 0</think>The answer is \\boxed{0}."},
    {"prompt": "What is 4 * 5 + 6?", "completion": "The answer is \\boxed{26}."},
    {
        "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "7 hens and 2 cows?"}],
        "completion": "\\boxed{22}<|im_end|>",
    },
]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def policy() -> Policy:
    return load_policy("bundled")


def write(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_loss_is_that_of_a_plain_forward_pass_on_the_completions(tmp_path: Path, policy: Policy) -> None:
    groups = read_demonstrations(write(tmp_path / "data.jsonl", [*ROWS]), policy)
    loss = accumulate_gradient(policy, groups, normaliser=10.0, micro_batch_tokens=10_000, scoring=Scoring(1.0, 7))

    folder = policy.model.config._name_or_path
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    expected = torch.zeros(())
    for row in ROWS:
        prompt = row["prompt"] if isinstance(row["prompt"], list) else [{"role": "user", "content": row["prompt"]}]
        before = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
        whole = before + str(row["completion"]).removesuffix("<|im_end|>") + "<|im_end|>"
        ids = torch.tensor([tokenizer.encode(whole, add_special_tokens=False)])
        labels = ids.clone()
        labels[:, : len(tokenizer.encode(before, add_special_tokens=False))] = -100
        logits = model(ids).logits
        expected = expected + torch.nn.functional.cross_entropy(logits[0, :-1], labels[0, 1:], reduction="sum")
    (expected / 10.0).backward()

    assert loss == pytest.approx(expected.item() / 10.0, rel=1e-5)
    plain = dict(model.named_parameters())
    for name, weight in policy.trainable():
        torch.testing.assert_close(weight.grad, plain[name].grad, rtol=1e-3, atol=1e-5)


def test_every_demonstration_ends_with_one_end_of_turn(tmp_path: Path, policy: Policy) -> None:
    """Whether its text spells it out or not."""
    end = policy.tokenizer.eos_token_id
    for row, group in zip(ROWS, read_demonstrations(write(tmp_path / "d.jsonl", [*ROWS]), policy), strict=True):
        (ids,) = group.completion_ids
        assert ids.tolist().count(end) == 1
        assert ids[-1] == end
        text = policy.tokenizer.decode(ids.tolist())
        assert text.removesuffix("<|im_end|>") == row["completion"].removesuffix("<|im_end|>")


def test_micro_batches_do_not_change_loss_or_gradient(tmp_path: Path, policy: Policy) -> None:
    groups = read_demonstrations(write(tmp_path / "data.jsonl", [*ROWS, *ROWS[:2]]), policy)
    weights = [weight for _, weight in policy.trainable()]
    found = []
    for tokens, portions in ((10_000, 1), (70, 3), (1, 5)):
        assert len(list(micro_batches(groups, tokens))) == portions
        policy.model.zero_grad()
        loss = accumulate_gradient(policy, groups, 10.0, micro_batch_tokens=tokens, scoring=Scoring(1.0, 2048))
        found.append((loss, torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])))
    for loss, gradient in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-5)
        torch.testing.assert_close(gradient, found[0][1], rtol=1e-3, atol=1e-5)


def test_the_reported_loss_uses_one_constant_for_the_whole_run(tmp_path: Path, policy: Policy) -> None:
    data = write(tmp_path / "data.jsonl", [*ROWS])
    lengths = [len(group.completion_ids[0]) for group in read_demonstrations(data, policy)]
    seen: list[SftProgress] = []
    config = SftConfig(data=str(data), output=str(tmp_path / "out"), steps=6, sequences_per_step=1, threads=1)
    run_sft(config, seen.append, print)
    mean = sum(lengths) / len(lengths)
    assert [progress.step for progress in seen] == [1, 2, 3, 4, 5, 6]
    # Two epochs of three sequences each; short and long batches are divided by the same number.
    assert sorted(progress.completion_tokens for progress in seen) == sorted(lengths * 2)
    for progress in seen:
        assert progress.loss * mean == pytest.approx(progress.token_loss * progress.completion_tokens)


def test_training_learns_saves_and_repeats_itself(tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [{"prompt": "Say hello.", "completion": "hello"}] * 4)
    losses: list[list[float]] = []
    for name in ("one", "two"):
        seen: list[SftProgress] = []
        config = SftConfig(
            data=str(data),
            output=str(tmp_path / name),
            steps=40,
            sequences_per_step=4,
            lr=3e-3,
            warmup_steps=5,
            threads=1,
        )
        result = run_sft(config, seen.append, print)
        losses.append([progress.loss for progress in seen])
        assert (result.output, result.demonstrations, result.steps) == (tmp_path / name, 4, 40)
        assert result.final_loss == losses[-1][-1]
    assert losses[0] == losses[1]
    assert losses[0][0] > 5.0
    assert losses[0][-1] < 1.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.jsonl", "one", "two"]
    again = load_policy(str(tmp_path / "one"))
    groups = read_demonstrations(data, again)
    loss = accumulate_gradient(again, groups, 4.0 * len(groups[0].completion_ids[0]), 10_000, Scoring(1.0, 2048))
    assert loss == pytest.approx(losses[0][-1], rel=0.1)


def test_an_existing_folder_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    data = write(tmp_path / "data.jsonl", [*ROWS])
    with pytest.raises(UsageError, match=r"out' exists"):
        run_sft(SftConfig(data=str(data), output=str(tmp_path / "out"), steps=1), print, print)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"prompt": "a", "completion": "b"}\n{"prompt": \n', r"data.jsonl, line 2: not JSON: Expecting value"),
        ('["a", "b"]\n', r"line 1: expected an object with 'prompt' and 'completion', found list"),
        ('{"prompt": "a", "answer": "b"}\n', r"line 1: no column 'completion'; .*found 'prompt', 'answer'"),
        ("{}\n", r"line 1: no column 'prompt'; expected 'prompt' and 'completion', found none"),
        ('\n{"prompt": 3, "completion": "b"}\n', r"line 2: 'prompt' must be text or a list of messages"),
        ('{"prompt": [{"role": "user"}], "completion": "b"}\n', r"line 1: 'prompt' must be text or a list"),
        ('{"prompt": [], "completion": "b"}\n', r"line 1: 'prompt' must be text or a list"),
        ('{"prompt": "a", "completion": null}\n', r"line 1: 'completion' must be text, found NoneType"),
        ('{"prompt": "a", "completion": "' + "9" * 2000 + '"}\n', r"line 1: 20\d\d tokens, more than .* 1024"),
        ("\n", r"holds no demonstrations: expected JSONL"),
        ("", r"holds no demonstrations: expected JSONL"),
    ],
)
def test_bad_data_is_named_with_its_line(tmp_path: Path, policy: Policy, text: str, message: str) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_demonstrations(file, policy)


def test_a_missing_file_is_named(tmp_path: Path, policy: Policy) -> None:
    with pytest.raises(DataError, match=r"there is no file '.*nowhere\.jsonl'"):
        read_demonstrations(tmp_path / "nowhere.jsonl", policy)


def test_text_that_is_not_utf8_is_named(tmp_path: Path, policy: Policy) -> None:
    file = tmp_path / "data.jsonl"
    file.write_bytes(b'\n{"prompt": "a", "completion": "\xff"}\n')
    with pytest.raises(DataError, match=r"data.jsonl, line 2: not UTF-8: invalid start byte"):
        read_demonstrations(file, policy)


@pytest.mark.parametrize(("sequences", "per_step"), [(1000, 8), (1000, 7), (10, 4), (3, 8)])
def test_every_epoch_holds_each_sequence_once(sequences: int, per_step: int) -> None:
    lengths = [index % 13 for index in range(sequences)]
    steps = 3 * sequences // per_step
    batches = list(islice(step_batches(lengths, per_step, seed=0), steps))
    assert batches == list(islice(step_batches(lengths, per_step, seed=0), steps))
    assert batches != list(islice(step_batches(lengths, per_step, seed=1), steps))
    assert all(len(batch) == per_step for batch in batches)
    counts = [sum(batch.count(index) for batch in batches) for index in range(sequences)]
    assert max(counts) - min(counts) <= 2


def test_batches_hold_sequences_of_like_length() -> None:
    lengths = [(index * 37) % 60 for index in range(1024)]
    batches = list(islice(step_batches(lengths, 8, seed=0), 100))
    spread = [max(lengths[i] for i in batch) - min(lengths[i] for i in batch) for batch in batches]
    assert sum(spread) / len(spread) < 8


def test_muon_takes_the_matrices_and_adamw_the_rest(policy: Policy) -> None:
    config = SftConfig(data="", output="", optimizer="muon", lr=1e-3, muon_lr=0.01)
    (muon, muon_lr), (adamw, lr) = build_optimizers(policy.trainable(), config)
    assert (muon_lr, lr) == (0.01, 1e-3)
    assert isinstance(muon, torch.optim.Muon)
    assert len(muon.param_groups[0]["params"]) == 4 * 7
    embedding = policy.model.get_input_embeddings().weight
    assert any(weight is embedding for weight in adamw.param_groups[0]["params"])
    everything = sum(len(group["params"]) for optimizer in (muon, adamw) for group in optimizer.param_groups)
    assert everything == len(policy.trainable())


def test_schedules() -> None:
    assert [lr_factor(step, 10, 4, "constant", 0.0) for step in (0, 1, 3, 4, 9)] == [0.25, 0.5, 1.0, 1.0, 1.0]
    linear = [lr_factor(step, 5, 1, "linear", 0.2) for step in range(5)]
    assert linear == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])
    assert linear == pytest.approx([lr_factor(step, 5, 0, "linear", 0.2) for step in range(5)])
    cosine = [lr_factor(step, 5, 0, "cosine", 0.0) for step in range(5)]
    assert cosine == pytest.approx([1.0, 0.9045084972, 0.6545084972, 0.3454915028, 0.0954915028], abs=1e-9)
    assert lr_factor(9, 10, 2, "cosine", 0.1) == pytest.approx(0.1)
    assert lr_factor(50, 10, 2, "cosine", 0.1) == pytest.approx(0.1)
    assert lr_factor(0, 1, 0, "linear", 0.0) == 1.0
    assert lr_factor(0, 3, 10, "linear", 0.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("steps", "what"), [(1, "weights are not finite: model."), (3, "or its gradient (norm nan) is not finite")]
)
def test_what_is_not_finite_is_never_written(steps: int, what: str, tmp_path: Path) -> None:
    data = write(tmp_path / "data.jsonl", [*ROWS])
    output = tmp_path / "out"
    config = SftConfig(
        data=str(data), output=str(output), steps=steps, sequences_per_step=2, threads=1, lr=1e37, warmup_steps=0,
        schedule="constant",
    )  # fmt: skip
    with pytest.raises(BrokenRunError) as caught:
        run_sft(config, lambda _: None, print)
    assert what in str(caught.value)
    assert "No model is written. Lower lr=1e+37" in str(caught.value)
    assert not output.exists()
