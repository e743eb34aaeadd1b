"""Cases of the run and its folder, the model with its prompt, and the problems."""

import contextlib
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from groupwise.config import TrainConfig
from groupwise.data.arithmetic import arithmetic_problem
from groupwise.errors import UsageError
from groupwise.model.load import load_policy
from groupwise.model.reference import fingerprint_weights
from groupwise.model.size import stored_dtype
from groupwise.track.rollouts import read_rollouts, rollout_files
from groupwise.track.run_folder import RunFolder
from groupwise.training.run import resumes
from tests.options.case import ByHand, Case
from tests.options.observed import asked, first_gradient, outcome, what_was_sampled
from tests.options.runs import Trace

GENERATED = ("problems.train=arithmetic",)
EVAL = ("problems.eval={other}", "problems.eval_problems=2", "problems.eval_samples_per_prompt=1")


# The run and its folder


def due(every: int, steps: int) -> list[int]:
    return [step for step in range(1, steps + 1) if every and step % every == 0]


def names(folder: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in folder.iterdir())


def kept_in_rollouts(trace: Trace) -> tuple[bool, bool]:
    """Whether the bound holds, and whether every group has its place in it."""
    kept = rollout_files(trace.folder.path).values()
    size_bytes = sum(path.stat().st_size for path in kept)
    groups = sum(len(trace.groups(step)) for step in (1, 2))
    rows = sum(len(read_rollouts(path)) for path in kept)
    within = size_bytes <= 1e6 * trace.config.run.rollouts_max_megabytes
    return within, rows == groups * trace.config.batch.samples_per_prompt


def step_names(steps: list[int]) -> list[str]:
    return [f"step_{step:06d}" for step in steps]


def expected_checkpoints(trace: Trace) -> list[str]:
    options = trace.config.run
    written = sorted({*due(options.checkpoint_every_steps, options.steps), options.steps})
    return step_names(written[-options.keep_checkpoints :])


def what_happens_to_a_run_that_is_there(config: TrainConfig) -> str:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        RunFolder.create(config.run.output, "", lambda _path, _aside: config).close()
        if resumes(config):
            return "resumed"
        with contextlib.suppress(UsageError):
            RunFolder.create(config.run.output, "", lambda _path, _aside: config)
            return "overwritten"
    return "refused"


RESUMED = {
    "run.resume": ByHand(
        {"never": "refused", "auto": "resumed"}, what_happens_to_a_run_that_is_there, base=("run.output=runs/mine",)
    ),
}
RUN = {
    "run.trackers": Case(
        ("[]", "[csv]"),
        lambda t: names(t.folder.path / "trackers") if (t.folder.path / "trackers").exists() else [],
        lambda t: ["metrics" for _ in t.config.run.trackers],
        same=outcome,
    ),
    "run.steps": Case(("1", "2"), lambda t: len(t.lines()), lambda t: t.config.run.steps, same=what_was_sampled),
    "run.seed": Case(
        ("0", "7"),
        asked,
        lambda t: [arithmetic_problem(t.config.run.seed, "train", i).question for i in range(3)],
        base=GENERATED,
    ),
    "run.output": Case(
        ("", "{folder}/mine"),
        lambda t: str(t.folder.path),
        lambda t: t.config.run.output or f"{t.folder.path.parents[1]}/runs/train-001",
        same=outcome,
    ),
    "run.checkpoint_every_steps": Case(
        ("0", "2"),
        lambda t: names(t.folder.checkpoints),
        expected_checkpoints,
        base=("run.steps=3", "run.keep_checkpoints=9"),
        same=outcome,
    ),
    "run.keep_checkpoints": Case(
        ("1", "2"),
        lambda t: names(t.folder.checkpoints),
        expected_checkpoints,
        base=("run.steps=2", "run.checkpoint_every_steps=1"),
        same=outcome,
    ),
    "run.rollouts_every_steps": Case(
        ("0", "2"),
        lambda t: names(t.folder.rollouts),
        lambda t: step_names(due(t.config.run.rollouts_every_steps, 3)),
        base=("run.steps=3",),
        same=outcome,
    ),
    "run.rollouts_max_megabytes": Case(
        ("1000.0", "0.002"),
        kept_in_rollouts,
        lambda t: (True, t.config.run.rollouts_max_megabytes > 1),
        base=("run.steps=2",),
        same=outcome,
    ),
    "run.deadline_seconds": Case(
        ("60", "1800"),
        lambda t: t.run.ranks.deadline_seconds,
        lambda t: t.config.run.deadline_seconds,
        same=outcome,
    ),
    "run.stop_after": Case(
        ("1h", "1h30m"),
        lambda t: math.ceil((t.run.until - time.monotonic()) / 1800),
        lambda t: {"1h": 2, "1h30m": 3}[t.config.run.stop_after],
        same=outcome,
    ),
    "run.threads": Case(
        ("1", "2"),
        lambda t: [t.folder.read_context()["threads"], t.summary["threads"]],
        lambda t: [t.config.run.threads] * 2,
        same=outcome,
        same_tolerance=1e-5,
    ),
}


# The model and its prompt


def fingerprint(trace: Trace) -> str:
    return fingerprint_weights(load_policy(trace.config.model.path))


def moved(trace: Trace) -> list[str]:
    """Names of the weights that training changed."""
    return [name for name in trace.before if not torch.equal(trace.before[name], trace.after[name])]


def chat(*turns: str) -> str:
    return "".join(f"<|im_start|>{turn}<|im_end|>\n" for turn in turns)


def expected_prompt(trace: Trace) -> str:
    """The first prompt, from the model's chat format as it is printed in its documentation."""
    options, question = trace.config.prompt, asked(trace)[0]
    shown = [
        f"{role}\n{text}" for e in options.examples for role, text in (("user", e.problem), ("assistant", e.answer))
    ]
    system = [f"system\n{options.system}"] if options.system else []
    if options.template == "plain":
        return f"{question}\n{options.prefill}"
    if options.chat_template:
        return f"Q: {question}\nA{options.template_arguments.get('mark', ':')}"
    return chat(*system, *shown, f"user\n{question}") + "<|im_start|>assistant\n" + options.prefill


MODEL = {
    "model.path": Case(("bundled", "{model}"), lambda t: t.folder.read_context()["initial_weights"], fingerprint),
    # bfloat16 has 8 bits: the engine's copy differs by about a hundredth of a nat, the trainer's weights stay float32.
    # On a CPU `auto` is float32.
    "model.compute_dtype": Case(
        ("auto", "float32", "bfloat16"),
        lambda t: [t.folder.read_context()["config"]["model"]["compute_dtype"], t.metric("engine/logp_gap_max") < 1e-4],
        lambda t: [(stated := t.config.model.compute_dtype), stated != "bfloat16"],
        base=("objective.old_logps=trainer",),
        same=lambda t: sorted({str(weight.dtype) for weight in t.after.values()}),
    ),
    "model.trainable": Case(
        ("all", "all_but_embeddings"),
        moved,
        lambda t: [n for n in t.before if t.config.model.trainable == "all" or "embed_tokens" not in n],
        same=what_was_sampled,
    ),
    # The plain pass reads the prompt again for each completion of a group.
    "model.backend": Case(
        ("auto", "plain"),
        lambda t: t.policy.backend,
        lambda t: "packed" if t.decoded else "plain",
        same=what_was_sampled,
    ),
    "model.save_dtype": Case(
        ("stored", "float32", "bfloat16"),
        lambda t: stored_dtype(str(t.folder.model)),
        lambda t: {"stored": "float16"}.get(t.config.model.save_dtype, t.config.model.save_dtype),
        base=("model.path={half}",),
        same=outcome,
    ),
    # No answer of random weights is right, so that this and the entropy alone have a gradient.
    "model.router_aux_coefficient": Case(
        ("0.0", "0.5"),
        first_gradient,
        base=("model.path={experts}", "entropy.bonus={type: fixed, coefficient: 0.01}"),
        same=what_was_sampled,
    ),
    "prompt.template": Case(("chat", "plain"), Trace.prompt, expected_prompt, same=asked),
    "prompt.chat_template": Case(("", "{template}"), Trace.prompt, expected_prompt, same=asked),
    "prompt.template_arguments": Case(
        ("{}", '{mark: " ="}'), Trace.prompt, expected_prompt, base=("prompt.chat_template={template}",), same=asked
    ),
    "prompt.system": Case(("", "Be brief."), Trace.prompt, expected_prompt, same=asked),
    "prompt.examples": Case(
        ("[]", '[{problem: "1 + 1?", answer: "\\\\boxed{2}"}]'), Trace.prompt, expected_prompt, same=asked
    ),
    "prompt.prefill": Case(("", "<think>"), Trace.prompt, expected_prompt, same=asked),
}


# Problems


def of_file(trace: Trace, column: str) -> list[Any]:
    """What the problems of the first step have in a column of their file."""
    (path,) = trace.config.problems.train_sources
    rows = {str(row["question"]): row for row in read(path)}
    return [rows[group.problem.question.removeprefix("Please: ")][column] for group in trace.groups()]


def read(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def generated_and_read(trace: Trace) -> tuple[list[str], int]:
    """The generated questions of the first step, and how many others there are, each asked once."""
    known = [arithmetic_problem(0, "train", index).question for index in range(8)]
    questions = asked(trace)
    assert len(set(questions)) == len(questions)
    return [question for question in questions if question in known], sum(q not in known for q in questions)


def expected_sources(trace: Trace) -> tuple[list[str], int]:
    """8 problems; of two sources with equal shares 4 each."""
    sources = trace.config.problems.train_sources
    generated = 8 // len(sources) if "arithmetic" in sources else 0
    return [arithmetic_problem(0, "train", index).question for index in range(generated)], 8 - generated


def expected_measured(trace: Trace) -> list[str]:
    """Without a source of its own the measurement takes generated problems that training never meets."""
    options = trace.config.problems
    if options.eval_sources:
        return sorted(row["question"] for path in options.eval_sources for row in read(path))
    return sorted(arithmetic_problem(0, "eval", index).question for index in range(options.eval_problems))


def measured_questions(trace: Trace) -> list[str]:
    return sorted(problem.question for problem in trace.measured[0])


PROBLEMS = {
    # 8 problems in a step: an epoch of the files, which holds each of them once.
    "problems.train": Case(
        ("arithmetic", "{other}", "{arithmetic: 1, {other}: 1}"),
        generated_and_read,
        expected_sources,
        base=("batch.prompts_per_step=8", "batch.samples_per_prompt=2"),
    ),
    # As many as the files have.
    "problems.eval": Case(
        ("", "{other}", "[{other}, {likely}]"),
        measured_questions,
        expected_measured,
        base=(*GENERATED, "problems.eval_problems=8", "problems.eval_samples_per_prompt=1"),
        same=outcome,
    ),
    "problems.columns.problem": Case(
        ("", "asked"),
        asked,
        lambda t: of_file(t, t.config.problems.columns.problem or "question"),
        base=("problems.train={columns}",),
    ),
    "problems.columns.answer": Case(
        ("", "gold"),
        lambda t: [group.problem.answer for group in t.groups()],
        lambda t: of_file(t, t.config.problems.columns.answer or "answer"),
        base=("problems.train={columns}",),
        same=Trace.sampled_ids,
    ),
    "problems.columns.domain": Case(
        ("", "kind"),
        lambda t: [group.problem.domain for group in t.groups()],
        lambda t: of_file(t, t.config.problems.columns.domain or "domain"),
        base=("problems.train={columns}",),
        same=outcome,
    ),
    "problems.eval_problems": Case(
        ("0", "3"),
        lambda t: len(t.measured[0]) if t.measured else 0,
        lambda t: t.config.problems.eval_problems,
        base=("problems.eval={other}", "problems.eval_samples_per_prompt=1"),
        same=outcome,
    ),
    "problems.eval_samples_per_prompt": Case(
        ("1", "4"),
        lambda t: [t.summary["after"]["sampled"]["samples_per_prompt"], [*t.summary["after"]["sampled"]["pass_at"]]],
        lambda t: [
            t.config.problems.eval_samples_per_prompt,
            {1: [], 4: ["2", "4"]}[t.config.problems.eval_samples_per_prompt],
        ],
        base=("problems.eval={other}", "problems.eval_problems=2"),
        same=outcome,
    ),
    "problems.eval_every_steps": Case(
        ("0", "2"),
        lambda t: [line["step"] for line in t.lines() if "eval/greedy/accuracy" in line],
        # After the last step there is the measurement of the summary.
        lambda t: [step for step in due(t.config.problems.eval_every_steps, 3) if step < 3],
        base=("run.steps=3", *EVAL),
        same=outcome,
    ),
}

CASES = {**RUN, **MODEL, **PROBLEMS}
