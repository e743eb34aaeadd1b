"""Puts a run together: everything is loaded and checked before a folder is made or a step is taken."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from groupwise.config import ProblemOptions, TrainConfig
from groupwise.config_facts import uses_kl
from groupwise.errors import DataError
from groupwise.policy.check import check_scoring
from groupwise.policy.load import Policy, load_policy
from groupwise.policy.prompt import PromptRenderer
from groupwise.rewards.answer import AnswerMode, gold_fault
from groupwise.rollout.engine import SamplingParams
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.tasks.arithmetic import arithmetic_problem
from groupwise.tasks.files import read_problems
from groupwise.tasks.problem import Problem
from groupwise.tasks.stream import ProblemStream, generated_stream, shuffled_stream
from groupwise.train.checkpoint import TrainState
from groupwise.train.collect import Sampler
from groupwise.train.grade import Grader
from groupwise.train.loop import Run
from groupwise.train.reference import fingerprint_weights, frozen_copy
from groupwise.train.report import Reporter
from groupwise.train.run_folder import RunFolder
from groupwise.train.threads import choose_threads
from groupwise.train.world import World

ARITHMETIC = "arithmetic"
# The generated problems that are measured on are the same for every seed of a run.
EVAL_SEED = 0


@dataclass(frozen=True)
class Source:
    """Problems of a source. problems is empty where they are generated without end; fingerprint tells sources apart."""

    stream: ProblemStream
    problems: tuple[Problem, ...]
    fingerprint: str
    shown: str


def open_source(source: str, options: ProblemOptions, seed: int) -> Source:
    """Problems to train on."""
    if source == ARITHMETIC:
        stream = generated_stream(lambda index: arithmetic_problem(seed, "train", index))
        return Source(stream, (), f"{ARITHMETIC}/{seed}", "generated arithmetic")
    file = read_problems(Path(source), options.columns.problem, options.columns.answer, options.columns.domain)
    stream = shuffled_stream(file.problems, seed)
    return Source(stream, tuple(file.problems), file.fingerprint, f"{source} ({len(file.problems)} rows, {file.shape})")


def eval_problems(options: ProblemOptions) -> list[Problem]:
    """Problems to measure on, at most `eval_problems` of them."""
    source = options.eval or (ARITHMETIC if options.train == ARITHMETIC else "")
    if not source:
        return []
    if source == ARITHMETIC:
        return distinct_problems(options.eval_problems)
    columns = options.columns
    file = read_problems(Path(source), columns.problem, columns.answer, columns.domain)
    chosen = np.random.Generator(np.random.Philox(EVAL_SEED)).permutation(len(file.problems))
    return [file.problems[index] for index in chosen[: options.eval_problems]]


def distinct_problems(count: int) -> list[Problem]:
    """Held-out generated problems, no two with the same text, so that each one counts once in an interval.

    Raises:
        DataError: if there are not so many.
    """
    problems: dict[str, Problem] = {}
    index = newest = 0
    while len(problems) < count:
        problem = arithmetic_problem(EVAL_SEED, "eval", index)
        if problem.question not in problems:
            problems[problem.question], newest = problem, index
        index += 1
        if index - newest > 5_000:
            raise DataError(
                f"only {len(problems)} different problems can be generated: lower problems.eval_problems from {count}"
            )
    return list(problems.values())


def check_prompts(renderer: PromptRenderer, problems: list[Problem], policy: Policy, max_new_tokens: int) -> int:
    """Render every problem; the longest prompt in tokens.

    Raises:
        DataError: naming the problems that do not fit into the context together with their completions, or one with
            a token that the model has no embedding for.
    """
    longest, too_long = 0, []
    vocabulary = policy.model.get_input_embeddings().num_embeddings
    for problem in problems:
        ids = renderer.render(problem.messages).ids
        tokens = len(ids)
        longest = max(longest, tokens)
        if tokens and (highest := int(ids.max())) >= vocabulary:
            raise DataError(
                f"{problem.source or problem.id}: the prompt has the token {highest} "
                f"({policy.tokenizer.convert_ids_to_tokens(highest)!r}), and the model knows only {vocabulary}: "
                "tokenizer and model do not belong together"
            )
        if tokens + max_new_tokens > policy.max_context_tokens:
            too_long.append(f"{problem.source or problem.id}: {tokens} tokens")
    if too_long:
        shown = "\n".join(f"- {line}" for line in too_long[:10])
        more = f"\n- and {len(too_long) - 10} more" if len(too_long) > 10 else ""
        raise DataError(
            f"{len(too_long)} of {len(problems)} prompts do not fit: the model's context is "
            f"{policy.max_context_tokens} tokens, and sampling.max_new_tokens={max_new_tokens} of them are for the "
            f"completion. Shorten the prompts, remove these problems, or lower sampling.max_new_tokens:\n{shown}{more}"
        )
    return longest


def check_answers(problems: list[Problem], mode: AnswerMode) -> None:
    """Raises DataError if the reference answer of some problem could never be matched."""
    faults = [(problem, fault) for problem in problems if (fault := gold_fault(problem.answer, mode))]
    if faults:
        shown = "\n".join(f"- {problem.source or problem.id}: {fault}" for problem, fault in faults[:10])
        more = f"\n- and {len(faults) - 10} more" if len(faults) > 10 else ""
        raise DataError(f"{len(faults)} of {len(problems)} reference answers cannot be used:\n{shown}{more}")


def check_domains(problems: list[Problem], by_domain: Mapping[str, float]) -> None:
    """Raises DataError if a KL coefficient is for a domain that no problem of the file belongs to."""
    found = {problem.domain for problem in problems}
    unknown = sorted(set(by_domain) - found) if problems else []
    if unknown:
        raise DataError(
            f"kl.by_domain names {', '.join(unknown)}, which no problem belongs to; the domains of the file are "
            f"{', '.join(sorted(found))}"
        )


def make_optimizer(policy: Policy, config: TrainConfig) -> torch.optim.Optimizer:
    """AdamW over the trained weights."""
    options = config.optimizer
    return torch.optim.AdamW(
        [weight for _, weight in policy.trainable()],
        lr=options.lr,
        betas=(options.beta1, options.beta2),
        eps=options.epsilon,
        weight_decay=options.weight_decay,
        fused=True,
    )


@dataclass(frozen=True)
class Prepared:
    """A run that only lacks its folder and its counters."""

    policy: Policy
    reference: Policy | None
    engine: InProcessEngine
    optimizer: torch.optim.Optimizer
    sampler: Sampler
    eval_problems: list[Problem]
    context: dict[str, Any]


def prepare(config: TrainConfig, reporter: Reporter, threads: int) -> Prepared:
    """Load and check everything that the configuration names. `threads` overrides the configured number unless 0.

    Raises:
        DataError: if a model, file, or problem cannot be used.
    """
    source = open_source(config.problems.train, config.problems, config.run.seed)
    held_out = eval_problems(config.problems) if config.problems.eval_problems else []
    policy = load_policy(config.model.path, config.model.compute_dtype, config.model.trainable)
    choice = choose_threads(threads or config.run.threads, policy.model.config.hidden_size)
    reporter.note(f"threads {choice}")
    check_scoring(policy)
    renderer = PromptRenderer(policy.tokenizer, config.prompt)
    some = list(source.problems) or [source.stream.at(position) for position in range(32)]
    check_answers([*some, *held_out], config.rewards.answer)
    check_domains(list(source.problems), config.kl.by_domain)
    longest = check_prompts(renderer, [*some, *held_out], policy, config.sampling.max_new_tokens)
    grader = Grader(config.rewards, policy.tokenizer, policy.think_ids, config.sampling.max_new_tokens)
    engine = InProcessEngine(policy, config.sampling.engine_batch_sequences)
    options = config.sampling
    sampling = SamplingParams(
        temperature=options.temperature,
        max_new_tokens=options.max_new_tokens,
        stop_ids=policy.stop_ids,
        top_k=options.top_k,
        top_p=options.top_p,
        min_p=options.min_p,
        record_kept=options.keep_mask == "replay",
    )
    context = {
        "problems": source.fingerprint,
        "threads": choice.threads,
        "torch": torch.__version__,
        "initial_weights": fingerprint_weights(policy),
    }
    reporter.plan(config, policy, source.shown, len(held_out), longest, renderer.render(some[0].messages))
    return Prepared(
        policy=policy,
        reference=frozen_copy(policy) if uses_kl(config) else None,
        engine=engine,
        optimizer=make_optimizer(policy, config),
        sampler=Sampler(config, policy, engine, renderer, grader, source.stream, sampling),
        eval_problems=held_out,
        context=context,
    )


def assemble(config: TrainConfig, prepared: Prepared, folder: RunFolder, state: TrainState, reporter: Reporter) -> Run:
    """The run in its folder."""
    return Run(
        config=config,
        folder=folder,
        policy=prepared.policy,
        reference=prepared.reference,
        engine=prepared.engine,
        optimizer=prepared.optimizer,
        sampler=prepared.sampler,
        state=state,
        context=prepared.context,
        world=World.current(),
        reporter=reporter,
        eval_problems=prepared.eval_problems,
    )
