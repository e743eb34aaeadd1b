"""Puts a run together: everything is loaded and checked before a folder is made or a step is taken."""

import difflib
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

import torch

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.data.files import ProblemFile, fingerprint
from groupwise.data.sources import eval_problems, open_sources, read_files
from groupwise.errors import DataError, UsageError
from groupwise.evaluation.check_files import usable_rows
from groupwise.evaluation.measure import answers_of
from groupwise.grading.grader import Grader
from groupwise.memory.fit import fit_micro_batches
from groupwise.memory.free_memory import free_bytes
from groupwise.memory.needs import needs_of
from groupwise.model.backends.router import has_router_loss
from groupwise.model.choose_backend import choose_backend
from groupwise.model.device import CPU, choose_device, is_left_open, settled
from groupwise.model.load import Policy, load_policy
from groupwise.model.lora import with_adapters
from groupwise.model.prompt import PromptRenderer
from groupwise.model.reference import fingerprint_weights, frozen_copy
from groupwise.model.shards import shard
from groupwise.model.size import size_of
from groupwise.model.startup_check import check_prompts
from groupwise.model.stop_check import check_stops
from groupwise.model.threads import choose_threads
from groupwise.ranks import Ranks
from groupwise.rollout.engine import make_engine, sampling_params
from groupwise.rollout.engine_check import check_engine
from groupwise.rollout.sampling import derive_seed
from groupwise.track.plan import plan_lines
from groupwise.track.run_folder import RunFolder
from groupwise.track.tracker import Tracker
from groupwise.training.checkpoint import TrainState
from groupwise.training.collect import Sampler
from groupwise.training.identity import agree, of_files, of_tokenizer, versions
from groupwise.training.optimizer import make_optimizer
from groupwise.training.step import Prepared, Run

Objects = Mapping[str, Callable[..., Any]]


def check_domains(found: tuple[str, ...], named: Iterable[str]) -> list[str]:
    """Remarks on tables for domains that no problem belongs to; a recipe may have more domains than one file.

    Raises:
        DataError: for one that looks like a domain of the problems, misspelt.
    """
    unknown = sorted(set(named) - set(found))
    for name in unknown:
        near = difflib.get_close_matches(name, found, 1)
        if near:
            raise DataError(
                f"the section domains names {name!r}, which no problem belongs to; did you mean {near[0]!r}? The "
                f"domains of the problems are {', '.join(found)}"
            )
    return [f"no problem belongs to the domain {name}: its table in domains has no effect" for name in unknown]


def arithmetic_remarks(stated: TrainConfig, config: TrainConfig) -> list[str]:
    """Warnings that only the device's arithmetic gives rise to. Raises UsageError for what it makes impossible."""
    known = contradictions(stated) if stated != config else []
    new = [finding for finding in contradictions(config) if finding not in known] if stated != config else []
    if errors := [finding.message for finding in new if finding.level == "error"]:
        raise UsageError(f"with model.compute_dtype={config.model.compute_dtype}: {'; '.join(errors)}")
    return [finding.message for finding in new if finding.level == "warning"]


def is_divided(config: TrainConfig, policy: Policy, ranks: Ranks) -> bool:
    """Whether the ranks divide the weights among them, see `model.shard`.

    Raises:
        DataError: for what does not go together with it.
    """
    asked = config.model.shard
    if ranks.size == 1 or asked == "none":
        return False
    if asked == "auto":
        if policy.device.type == "cpu":
            return False
        needs, free = needs_of(config, size_of(policy.model)), free_bytes(policy.device, ranks)
        states = needs.weights + needs.reference + needs.moments + needs.gradient
        # The weights are there already.
        if not any(ranks.gather(free is not None and states > (free + needs.weights) / 2)):
            return False
    if config.optimizer.type == "muon":
        raise DataError("optimizer.type=muon needs whole matrices, and the model is divided: set model.shard=none")
    if config.model.router_aux_coefficient > 0:
        raise DataError(
            "model.router_aux_coefficient: the auxiliary loss reads what is inside of layers, which is gone when the "
            "weights are divided among ranks: set it to 0, or model.shard=none"
        )
    return True


def named_files(config: TrainConfig) -> dict[str, ProblemFile]:
    """All problem files. Raises DataError if one cannot be read as a whole."""
    return read_files(config.problems, (*config.problems.train_sources, *config.problems.eval_sources))


def configured_policy(config: TrainConfig, device: torch.device = CPU) -> Policy:
    """The model with its adapters, as the run begins, on a device."""
    options = config.model
    stop_ids = tuple(config.sampling.stop_ids)
    policy = load_policy(options.path, options.computes_in, options.trainable, stop_ids, device)
    seed = derive_seed(config.run.seed, "adapters")
    return with_adapters(policy, options.adapter, seed, options.weights_dtype)


def prepare(
    config: TrainConfig,
    tracker: Tracker,
    threads: int = 0,
    micro_batch_tokens: int | None = None,
    objects: Objects | None = None,
) -> Prepared:
    """Load and check everything that the configuration names, and try out whether it fits into memory.

    A resumed run names the threads and the size of the micro-batches that it began with: both change how sums are
    rounded. `threads` overrides the configured number unless 0. objects: see `GraderPool`.

    Raises:
        DataError: if a model, file, or problem cannot be used.
        UsageError: if there is not enough memory.
    """
    ranks = Ranks.current().waiting(config.run.deadline_seconds)
    until = time.monotonic() + (config.run.stop_after_seconds or math.inf)
    with ExitStack() as stack:
        chosen = choose_device(config.model.device, ranks.size)
        facts = {"options": config.model_dump(), "versions": versions(), "device": chosen.device.type}
        files = named_files(config)
        agree({**facts, **of_files(config, files)}, ranks)
        may_raise, stated = is_left_open(config, chosen.device), config
        config = settled(config, chosen.device)
        if chosen.device.type != "cpu":
            tracker.note(f"device    {chosen.shown(config.model.computes_in)}")
        for remark in arithmetic_remarks(stated, config):
            tracker.note(f"warning: {remark}")
        policy = configured_policy(config, chosen.device)
        width, sharers = policy.model.config.hidden_size, ranks.on_this_machine()
        threads = threads or config.run.threads
        if ranks.size > 1:
            # Ranks that round differently would drift apart.
            threads = ranks.first(lambda: choose_threads(threads, width, sharers).threads, "the number of threads")
        choice = choose_threads(threads, width)
        tracker.note(f"threads {choice}")
        renderer = PromptRenderer(policy.tokenizer, config.prompt)
        usable, remarks = usable_rows(config, files, renderer, policy.max_context_tokens)
        source = open_sources(config.problems, usable, config.run.seed)
        held_out = eval_problems(config.problems, usable)
        remarks += check_domains(source.domains, config.domains)
        problems = [*source.some, *held_out]
        longest = check_prompts(renderer, problems, policy, config.sampling.max_new_tokens)
        if config.model.router_aux_coefficient > 0 and not has_router_loss(policy.model):
            raise DataError(
                f"model.router_aux_coefficient: {type(policy.model).__name__} has no auxiliary loss; set it to 0"
            )
        policy, slower = choose_backend(policy, config.model.backend, longest + config.sampling.max_new_tokens)
        if slower:
            tracker.note(f"backend   {slower}")
        grader = stack.enter_context(Grader(config, policy.tokenizer, policy.think_ids, objects))
        remarks += grader.check(problems, policy.tokenizer.encode)
        first = renderer.render(source.some[0].messages)
        remarks += check_stops(renderer, first, policy, config.sampling)
        for remark in remarks:
            tracker.note(remark)
        divided = is_divided(config, policy, ranks)
        reference = frozen_copy(policy) if config.uses_kl and policy.adapter is None else None
        for line in plan_lines(config, policy, source.shown, len(held_out), longest, first):
            tracker.note(line)
        micro = fit_micro_batches(config, policy, longest, ranks, micro_batch_tokens, may_raise, divided)
        tracker.note(f"memory    {micro}")
        engine = make_engine(config, policy, tracker.note, shares=not divided)
        sampling = sampling_params(config.sampling, policy.stop_ids)
        most_tokens = longest + config.sampling.max_new_tokens
        gap = check_engine(engine, policy, first.ids, most_tokens, sampling, config.run.seed)
        within = f"within {gap.largest:.1g} nats on sequences of up to {gap.tokens} tokens"
        tracker.note(f"check     trainer and engine agree {within}")
        context = {
            "problems": source.fingerprint,
            "device": policy.device.type,
            "threads": choice.threads,
            "micro_batch_tokens": micro.tokens,
            "torch": torch.__version__,
            "initial_weights": fingerprint_weights(policy),
            "eval_problems": fingerprint(held_out),
            "vocabulary": policy.vocabulary,
            # Before and after training.
            "final_answers": 2 * answers_of(policy, held_out, config),
            **of_tokenizer(policy.tokenizer, config.prompt.chat_template),
            **of_files(config, files),
        }
        agree(context, ranks)
        if config.model.shard == "full" and ranks.size == 1:
            tracker.note("shards    model.shard=full has no effect with one rank: torchrun starts more")
        if divided:
            policy = shard(policy, ranks)
            reference = None if reference is None else shard(reference, ranks, policy.shards)
            tracker.note(f"shards    weights, gradients and moments are divided among {ranks.size} ranks")
        # The measurement of the beginning loads the model again where this would take as much as a model.
        initial = None if policy.adapter is None else frozen_copy(policy)
        if config.uses_kl and policy.adapter is not None:
            reference = frozen_copy(policy)
        if ranks.size > config.batch.prompts_per_step:
            tracker.note(
                f"warning: {ranks.size} ranks for batch.prompts_per_step={config.batch.prompts_per_step} groups: some "
                "have nothing to do"
            )
        stack.pop_all()
        return Prepared(
            policy=policy,
            reference=reference,
            reference_digest=fingerprint_weights(reference)
            if reference is not None and not config.kl.refresh_reference_every_steps
            else "",
            initial=initial,
            engine=engine,
            optimizer=make_optimizer(policy, config),
            sampler=Sampler(config, engine, renderer, grader, source.stream, sampling, source.domains),
            eval_problems=held_out,
            context=context,
            engine_gap_nats=gap.mean,
            until=until,
        )


def assemble(config: TrainConfig, prepared: Prepared, folder: RunFolder, state: TrainState, tracker: Tracker) -> Run:
    """The run in its folder, with micro-batches that fit."""
    batch = config.batch.model_copy(update={"micro_batch_tokens": prepared.context["micro_batch_tokens"]})
    fitting, ranks = settled(config.model_copy(update={"batch": batch}), prepared.policy.device), Ranks.current()
    ranks = ranks.waiting(config.run.deadline_seconds)
    return Run(
        **vars(prepared), config=fitting, stated=config, folder=folder, state=state, ranks=ranks, tracker=tracker
    )
