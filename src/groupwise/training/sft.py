"""Supervised fine-tuning on demonstrations: the loss is on the completions alone."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NoReturn

import torch
from rich.console import Console
from torch import nn

from groupwise.config import SftConfig
from groupwise.errors import BrokenRunError, UsageError
from groupwise.model.choose_backend import choose_backend
from groupwise.model.finite import not_finite, shown
from groupwise.model.load import Policy, load_policy
from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.save import save_model
from groupwise.model.score import Scoring, score
from groupwise.model.threads import choose_threads
from groupwise.track.disk import fill, folder_aside
from groupwise.training.learning_rate import lr_factor
from groupwise.training.sft_data import micro_batches, read_demonstrations, step_batches

REPORT_EVERY_STEPS = 50


@dataclass(frozen=True, slots=True)
class SftProgress:
    """What one step did.

    step: counts from 1.
    loss: the step's token losses in nats over `sequences_per_step` times the data's mean completion length.
    token_loss: their mean over the step's own completion tokens, for reading alone.
    grad_norm: before clipping. seconds: since training began.
    """

    step: int
    steps: int
    loss: float
    token_loss: float
    grad_norm: float
    lr: float
    completion_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SftResult:
    """What a run leaves behind. seconds: of training alone."""

    output: Path
    demonstrations: int
    steps: int
    final_loss: float
    seconds: float


def progress_printer(console: Console) -> Callable[[SftProgress], None]:
    """A report for `run_sft` that prints the first step, the last one, and every REPORT_EVERY_STEPS-th."""

    def report(progress: SftProgress) -> None:
        if progress.step % REPORT_EVERY_STEPS == 0 or progress.step in (1, progress.steps):
            console.print(
                f"step {progress.step}/{progress.steps}  loss {progress.token_loss:.4f} nats per token  "
                f"grad norm {progress.grad_norm:.3f}  lr {progress.lr:.2e}  {progress.seconds:.0f} s",
                highlight=False,
            )

    return report


def run_sft(config: SftConfig, report: Callable[[SftProgress], None], note: Callable[[str], None]) -> SftResult:
    """Train the model on the demonstrations and write it to `config.output`.

    `report` hears of every step, `note` of a model that has to be run more slowly than others.

    The model is written next to its place and renamed, so that the folder is either complete or absent.

    Raises:
        UsageError: if the output exists.
        DataError: if the model or the data cannot be used.
        BrokenRunError: if the loss, its gradient or the weights are not finite.
    """
    output = Path(config.output)
    if output.exists():
        raise UsageError(f"'{output}' exists: name another folder for the trained model, or remove this one")
    policy = load_policy(config.model)
    choose_threads(config.threads, policy.model.config.hidden_size)
    groups = read_demonstrations(Path(config.data), policy)
    longest = max(len(group.prompt_ids) + len(ids) for group in groups for ids in group.completion_ids)
    policy, slower = choose_backend(policy, "auto", longest)
    if slower:
        note(slower)
    lengths = [_completion_tokens([group]) for group in groups]
    # One constant for the whole run. A mean over each batch's own tokens would weigh a token of a short batch more
    # than one of a long batch, and so shift the model towards short completions.
    normaliser = config.sequences_per_step * sum(lengths) / len(lengths)
    optimizers = build_optimizers(policy.trainable(), config)
    weights = [weight for _, weight in policy.trainable()]
    scoring = Scoring(1.0, config.logits_chunk_tokens, checkpoint_layers=config.activation_checkpointing, in_place=True)
    batches = step_batches(lengths, config.sequences_per_step, config.seed)
    begin = time.perf_counter()
    loss = 0.0
    for step, indices in enumerate(islice(batches, config.steps)):
        batch = [groups[index] for index in indices]
        factor = lr_factor(step, config.steps, config.warmup_steps, config.schedule, config.final_lr_fraction)
        for optimizer, peak_lr in optimizers:
            optimizer.zero_grad()
            for parameters in optimizer.param_groups:
                parameters["lr"] = peak_lr * factor
        loss = accumulate_gradient(policy, batch, normaliser, config.micro_batch_tokens, scoring)
        grad_norm = float(nn.utils.clip_grad_norm_(weights, config.max_grad_norm))
        if not math.isfinite(loss + grad_norm):
            _refuse(f"the loss ({loss:g}) or its gradient (norm {grad_norm:g}) is not finite", step + 1, config)
        for optimizer, _ in optimizers:
            optimizer.step()
        tokens = _completion_tokens(batch)
        report(
            SftProgress(
                step=step + 1,
                steps=config.steps,
                loss=loss,
                token_loss=loss * normaliser / tokens,
                grad_norm=grad_norm,
                lr=config.lr * factor,
                completion_tokens=tokens,
                seconds=time.perf_counter() - begin,
            )
        )
    seconds = time.perf_counter() - begin
    if tensors := not_finite(policy.trainable()):
        _refuse(f"weights are not finite: {shown(tensors)}", config.steps, config)
    with folder_aside(output) as aside:
        fill(aside, lambda: save_model(policy, aside, config.save_dtype))
    return SftResult(output, len(groups), config.steps, loss, seconds)


def _refuse(text: str, step: int, config: SftConfig) -> NoReturn:
    raise BrokenRunError(
        f"step {step} of {config.steps}: {text}. No model is written. Lower lr={config.lr:g}"
        + (f" or muon_lr={config.muon_lr:g}" if config.optimizer == "muon" else "")
    )


def accumulate_gradient(
    policy: Policy, groups: Sequence[SequenceGroup], normaliser: float, micro_batch_tokens: int, scoring: Scoring
) -> float:
    """Adds the gradient of `-sum of token log-probabilities / normaliser` to the weights and returns that loss.

    The loss is a plain sum over tokens: no split into micro-batches changes it.
    """
    total = 0.0
    for portion in micro_batches(groups, micro_batch_tokens):
        scores = score(policy, pack(portion, policy.device), scoring)
        loss = -scores.logps_N.sum() / normaliser
        loss.backward()
        total += loss.item()
    return total


def build_optimizers(
    weights: Sequence[tuple[str, nn.Parameter]], config: SftConfig
) -> list[tuple[torch.optim.Optimizer, float]]:
    """The optimizers with their peak learning rates. Muon takes matrices, but neither embeddings nor the head."""
    matrices = [
        weight
        for name, weight in weights
        if config.optimizer == "muon" and weight.ndim == 2 and "embed" not in name and "lm_head" not in name
    ]
    others = [weight for _, weight in weights if not any(weight is matrix for matrix in matrices)]
    optimizers: list[tuple[torch.optim.Optimizer, float]] = []
    if matrices:
        muon = torch.optim.Muon(matrices, lr=config.muon_lr, weight_decay=config.weight_decay)
        optimizers.append((muon, config.muon_lr))
    if others:
        adamw = torch.optim.AdamW(others, lr=config.lr, betas=(0.9, 0.95), weight_decay=config.weight_decay)
        optimizers.append((adamw, config.lr))
    return optimizers


def _completion_tokens(groups: Sequence[SequenceGroup]) -> int:
    return sum(len(ids) for group in groups for ids in group.completion_ids)
