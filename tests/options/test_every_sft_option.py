"""Every option of `groupwise sft` changes the number that it claims to change, by the amount that it claims."""

import itertools
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from groupwise.config import SftConfig, TrainConfig
from groupwise.config.describe import describe_options
from groupwise.model.load import load_policy
from groupwise.model.packing import packed_tokens
from groupwise.model.size import stored_dtype
from tests.options import by_hand
from tests.options.case import Case, equal
from tests.options.runs import Floats, flat
from tests.options.sft_runs import SMALL, SftTrace, run_sft_with, write_sft_files


def final_weights(trace: SftTrace) -> Floats:
    return flat(trace.after)


def first_gradient(trace: SftTrace) -> Floats:
    return flat(trace.gradients[0])


def trained_on(trace: SftTrace) -> list[list[tuple[int, ...]]]:
    return [[tuple(group.completion_ids[0].tolist()) for group in batch] for batch in trace.batches]


def expected_ids(trace: SftTrace) -> list[tuple[int, ...]]:
    """Every completion of the file with the end of the turn."""
    tokenizer = load_policy("bundled").tokenizer
    lines = Path(trace.config.data).read_text().splitlines()
    texts = [line.partition('"completion": "')[2].removesuffix('"}').replace("\\\\", "\\") for line in lines]
    return sorted(tuple(tokenizer.encode(f"{text}<|im_end|>", add_special_tokens=False)) for text in texts)


def is_matrix(name: str, weight: Tensor) -> bool:
    return weight.ndim == 2 and "embed" not in name


def moved(trace: SftTrace) -> dict[str, Any]:
    """How far the weights went: those that Muon takes where it is chosen, and the others."""
    parts: dict[str, Any] = {"lr": np.array([step.lr for step in trace.progress])}
    for kind, matrix in (("matrices", True), ("others", False)):
        names = [name for name, weight in trace.before.items() if is_matrix(name, weight) == matrix]
        parts[kind] = flat({name: trace.after[name] - trace.before[name] for name in names})
    return parts


def expected_moved(trace: SftTrace) -> dict[str, Any]:
    config = trace.config
    stand_in = TrainConfig.model_validate(
        {
            "run": {"steps": config.steps},
            "optimizer": {
                name: getattr(config, name)
                for name in ("lr", "weight_decay", "max_grad_norm", "warmup_steps", "schedule", "final_lr_fraction")
            },
        }
    )
    before = flat(trace.before)
    gradients = [flat(gradient) for gradient in trace.gradients]
    after = by_hand.adamw(stand_in, before, gradients, range(config.steps))
    mask = np.concatenate(
        [np.full(weight.numel(), is_matrix(name, weight)) for name, weight in sorted(trace.before.items())]
    )
    rates = np.array([by_hand.learning_rate(stand_in, step) for step in range(config.steps)])
    matrices = (after - before)[mask]
    if config.optimizer == "muon":
        matrices = flat({n: muon_moved(trace, n, rates) for n, weight in trace.before.items() if is_matrix(n, weight)})
    return {"lr": rates, "matrices": matrices, "others": (after - before)[~mask]}


def muon_moved(trace: SftTrace, name: str, rates: Floats) -> Tensor:
    """Muon (Jordan 2024): Nesterov momentum, orthogonalised by five Newton-Schulz iterations in bfloat16."""
    config, start = trace.config, trace.before[name]
    weight, momentum = start.clone(), torch.zeros_like(start)
    for gradients, rate in zip(trace.gradients, rates, strict=True):
        norm = float(np.linalg.norm(flat(gradients)))
        gradient = gradients[name] / max(1.0, norm / config.max_grad_norm)
        momentum = momentum.lerp(gradient, 0.05)
        x = gradient.lerp(momentum, 0.95).bfloat16()
        wide = x if x.shape[0] <= x.shape[1] else x.T
        wide = wide / wide.norm()
        for _ in range(5):
            square = wide @ wide.T
            # Fused as torch does it: what bfloat16 rounds off otherwise grows into directions without a gradient.
            odd = torch.addmm(square, square, square, beta=-4.775, alpha=2.0315)
            wide = torch.addmm(wide, odd, wide, beta=3.4445)
        direction = wide if x.shape[0] <= x.shape[1] else wide.T
        lr = config.muon_lr * float(rate) / config.lr
        stretch = max(1.0, start.shape[0] / start.shape[1]) ** 0.5
        weight = weight * (1 - lr * config.weight_decay) - lr * stretch * direction.float()
    return weight - start


def expected_passes(trace: SftTrace) -> list[int]:
    """As many demonstrations in a row as fit."""
    budget, passes = trace.config.micro_batch_tokens, []
    for batch in trace.batches:
        room = 0
        for group in batch:
            size = packed_tokens(len(group.prompt_ids), [len(ids) for ids in group.completion_ids])
            if size > room:
                passes.append(0)
                room = budget
            passes[-1] += size
            room -= size
    return passes


def case(*values: str, base: tuple[str, ...] = ()) -> Case:
    # The orthogonalisation in bfloat16 keeps three digits, and rounds on.
    return Case(values, moved, expected_moved, base=base, tolerance=0.02)


MUON = ("optimizer=muon",)
LONGER = ("steps=4",)

CASES = {
    "model": Case(
        ("bundled", "{model}"),
        lambda t: flat(t.before),
        lambda t: flat(dict(load_policy(t.config.model).model.named_parameters())),
        tolerance=1e-6,
    ),
    "data": Case(
        ("{demonstrations}", "{others}"),
        lambda t: sorted(ids for batch in trained_on(t) for ids in batch),
        expected_ids,
        base=("sequences_per_step=8", "steps=1", "warmup_steps=0"),
    ),
    "output": Case(
        ("{output}", "{output}-other"),
        lambda t: [str(t.result.output), (t.result.output / "model.safetensors").is_file()],
        lambda t: [t.config.output, True],
        same=final_weights,
    ),
    "seed": Case(("0", "1"), trained_on, base=("steps=4",)),
    "steps": Case(("2", "3"), lambda t: len(t.progress), lambda t: t.config.steps),
    "sequences_per_step": Case(
        ("2", "4"),
        lambda t: [len(batch) for batch in t.batches],
        lambda t: [t.config.sequences_per_step] * 2,
    ),
    "optimizer": case("adamw", "muon"),
    "lr": case("1e-3", "2e-3"),
    "muon_lr": case("0.02", "0.05", base=MUON),
    "weight_decay": case("0.0", "5.0", base=MUON),
    # Adam does not see the length of a gradient unless it is down at its epsilon.
    "max_grad_norm": case("1e-7", "1.0"),
    "warmup_steps": case("0", "2", base=LONGER),
    "schedule": case("constant", "linear", "cosine", base=LONGER),
    "final_lr_fraction": case("0.0", "0.5", base=LONGER),
    "micro_batch_tokens": Case(
        ("1", "16384"), lambda t: t.passes, expected_passes, same=first_gradient, same_tolerance=1e-5
    ),
    "logits_chunk_tokens": Case(
        ("3", "2048"),
        lambda t: max(t.head_rows),
        lambda t: min(
            t.config.logits_chunk_tokens, max(sum(len(g.completion_ids[0]) for g in batch) for batch in t.batches)
        ),
        same=first_gradient,
        same_tolerance=1e-5,
    ),
    "activation_checkpointing": Case(
        ("false", "true"),
        lambda t: t.layer_calls,
        lambda t: len(t.passes) * (2 if t.config.activation_checkpointing else 1),
        same=lambda t: [first_gradient(t).tolist(), final_weights(t).tolist()],
    ),
    "save_dtype": Case(
        ("stored", "float32", "bfloat16"),
        lambda t: stored_dtype(str(t.result.output)),
        lambda t: {"stored": "float16"}.get(t.config.save_dtype, t.config.save_dtype),
        base=("model={half}",),
    ),
    "threads": Case(
        ("1", "2"), lambda t: t.threads, lambda t: t.config.threads, same=first_gradient, same_tolerance=1e-5
    ),
}


def test_every_option_has_a_case_and_every_choice_a_run() -> None:
    assert list(CASES) == [row.key for row in describe_options(SftConfig)]
    for key, one in CASES.items():
        annotation = SftConfig.model_fields[key].annotation
        if typing.get_origin(annotation) is typing.Literal:
            assert sorted(one.values) == sorted(typing.get_args(annotation))


@pytest.mark.slow
@pytest.mark.parametrize("key", CASES)
def test_the_option_changes_what_it_claims(key: str, tmp_path: Path) -> None:
    one, files = CASES[key], write_sft_files(tmp_path)
    traces = {}
    for index, value in enumerate(one.values):
        names = {**files, "output": str(tmp_path / f"output-{index}")}
        given = [*SMALL, *one.base, f"{key}={value}"]
        for name, path in names.items():
            given = [text.replace(f"{{{name}}}", path) for text in given]
        traces[value] = run_sft_with(given)
    numbers = {value: one.number(trace) for value, trace in traces.items()}
    for first, second in itertools.combinations(numbers.values(), 2):
        assert not equal(first, second, 2 * one.tolerance, norm=2)
    for value, trace in traces.items():
        if one.expected is not None:
            assert equal(numbers[value], one.expected(trace), one.tolerance, norm=2), value
    if one.same is not None:
        unchanged = [one.same(trace) for trace in traces.values()]
        assert all(equal(unchanged[0], other, one.same_tolerance) for other in unchanged[1:])
