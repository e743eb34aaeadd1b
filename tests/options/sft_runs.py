"""Small supervised runs on record."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from groupwise.config import SftConfig
from groupwise.config.compose import compose_sft_config
from groupwise.model.backends.token_scores import Rows, Tile
from groupwise.model.load import load_policy
from groupwise.model.packing import SequenceGroup
from groupwise.model.score import score
from groupwise.training import sft
from groupwise.training.sft import SftProgress, SftResult, accumulate_gradient, run_sft
from tests.options.files import answers, questions, write_files
from tests.options.runs import count_layer_calls, weights_of

SMALL = [
    "data={demonstrations}",
    "output={output}",
    "steps=2",
    "sequences_per_step=2",
    "warmup_steps=1",
    "threads=1",
    "lr=1e-3",
]


@dataclass
class SftTrace:
    """What a supervised run computed. gradients: of every step before its norm is limited; passes: their packed tokens;
    head_rows: rows of logits that existed at one time; layer_calls: of the first layer."""

    config: SftConfig
    result: SftResult
    progress: list[SftProgress]
    before: dict[str, Tensor]
    after: dict[str, Tensor]
    batches: list[list[SequenceGroup]]
    gradients: list[dict[str, Tensor]]
    passes: list[int]
    head_rows: list[int]
    layer_calls: int
    threads: int


def write_sft_files(folder: Path) -> dict[str, str]:
    """Two files of demonstrations and two models."""
    paths = {"demonstrations": folder / "demonstrations.jsonl", "others": folder / "others.jsonl"}
    for seed, path in enumerate(paths.values()):
        rows = [
            {"prompt": q, "completion": f"\\boxed{{{a}}}."} for q, a in zip(questions(seed), answers(seed), strict=True)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    made = write_files(folder)
    return {name: str(path) for name, path in paths.items()} | {name: made[name] for name in ("model", "half")}


def run_sft_with(overrides: list[str]) -> SftTrace:
    """`groupwise sft` with these options."""
    config = compose_sft_config(overrides)
    seen: dict[str, list[Any]] = {name: [] for name in ("before", "batches", "gradients", "passes", "rows")}
    progress: list[SftProgress] = []
    original_clip = nn.utils.clip_grad_norm_
    names: list[str] = []
    logits_of = Rows.logits
    layer_calls: list[bool] = []

    def loaded(*arguments: Any) -> Any:
        policy = load_policy(*arguments)
        seen["before"].append(weights_of(policy))
        names.extend(name for name, _ in policy.trainable())
        count_layer_calls(policy, layer_calls)
        return policy

    def noted_logits(rows: Rows, tile: Tile) -> Tensor:
        seen["rows"].append(len(rows.target_C))
        return logits_of(rows, tile)

    def accumulated(policy: Any, groups: Any, *arguments: Any) -> float:
        seen["batches"].append(list(groups))
        return accumulate_gradient(policy, groups, *arguments)

    def scored(policy: Any, packed: Any, *arguments: Any) -> Any:
        if not seen["passes"]:
            # Those of the check of the back-end.
            seen["rows"].clear()
        seen["passes"].append(packed.token_ids_1T.numel())
        return score(policy, packed, *arguments)

    def clipped(weights: Any, limit: float) -> Tensor:
        seen["gradients"].append({n: weight.grad.clone() for n, weight in zip(names, weights, strict=True)})
        return original_clip(weights, limit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rows, "logits", noted_logits)
        patch.setattr(sft, "load_policy", loaded)
        patch.setattr(sft, "accumulate_gradient", accumulated)
        patch.setattr(sft, "score", scored)
        patch.setattr(nn.utils, "clip_grad_norm_", clipped)
        result = run_sft(config, progress.append, print)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    return SftTrace(
        config=config,
        result=result,
        progress=progress,
        before=seen["before"][0],
        after=weights_of(load_policy(str(result.output))),
        batches=seen["batches"],
        gradients=seen["gradients"],
        passes=seen["passes"],
        head_rows=seen["rows"],
        layer_calls=sum(layer_calls),
        threads=threads,
    )
