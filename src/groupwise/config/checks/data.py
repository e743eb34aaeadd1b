"""Checks of what is sampled: problems, sampling, groups, and which groups are trained on."""

import math
from collections.abc import Iterator

from groupwise.config import TrainConfig
from groupwise.config.checks.table import Table, each_once
from groupwise.config.data import KEPT_LIMIT, is_generated
from groupwise.findings import Finding, error, shown, unused_option, warning
from groupwise.grading.reward_options import CORRECTNESS
from groupwise.objective.advantages.gdpo import Gdpo
from groupwise.objective.advantages.group import Group


def problems(config: TrainConfig) -> Iterator[Finding]:
    """Options for problem files and for the measurement."""
    options = config.problems
    trained, measured = list(options.train_sources), options.eval_sources
    yield from _sources(config)
    if all(map(is_generated, [*trained, *(measured if options.eval_problems else [])])):
        remedy = "name a file in problems.train or problems.eval"
        because = f"problems.train={shown(options.train)}"
        for name in type(options.columns).model_fields:
            yield from unused_option(config, f"problems.columns.{name}", because, remedy)
    if options.eval_problems == 0:
        because, remedy = "problems.eval_problems=0", "measure on some problems"
    elif not measured and not any(map(is_generated, trained)):
        because, remedy = "problems.eval=''", "name other problems to measure on"
    else:
        return
    yield from unused_option(config, "problems.eval_every_steps", because, remedy)
    # Turning the measurement off for one run is common, and what it would have used is no request for it.
    for key in ("problems.eval", "problems.eval_problems", "problems.eval_samples_per_prompt"):
        for finding in unused_option(config, key, because, remedy) if not because.startswith(f"{key}=") else ():
            yield warning(finding.keys, finding.message)


def _sources(config: TrainConfig) -> Iterator[Finding]:
    """Sources that are not named, or named twice."""
    options = config.problems
    if not options.train_sources or "" in options.train_sources:
        text = f"problems.train={shown(options.train)}: name a source to train on: arithmetic, toy_code or a file"
        yield error(("problems.train",), text)
    repeated = sorted({source for source in options.eval_sources if options.eval_sources.count(source) > 1})
    if repeated:
        text = f"problems.eval names {', '.join(repeated)} more than once: its problems would count twice; name it once"
        yield error(("problems.eval",), text)


def prompt(config: TrainConfig) -> Iterator[Finding]:
    """Options of a chat template, where there is none."""
    if config.prompt.template == "plain":
        for name in ("chat_template", "template_arguments"):
            yield from unused_option(config, f"prompt.{name}", "prompt.template=plain", "set prompt.template=chat")
    for name in {"messages", "add_generation_prompt"} & config.prompt.template_arguments.keys():
        text = f"prompt.template_arguments has {name!r}, which is the conversation's own; leave it out"
        yield error(("prompt.template_arguments",), text)


def stops(config: TrainConfig) -> Iterator[Finding]:
    """Texts that end completions."""
    options = config.sampling
    if "" in options.stop:
        yield error(("sampling.stop",), "sampling.stop has an empty text, which every answer holds; leave it out")
    if not options.stop:
        yield from unused_option(config, "sampling.keep_stop", "sampling.stop=[]", "name texts in sampling.stop")
    cut = [] if options.keep_stop else [text for text in options.stop if text.startswith("</")]
    if cut:
        text = (
            f"sampling.stop={shown(cut)} with sampling.keep_stop=false: what is graded ends before the closing tag, so "
            "that a format that asks for it is never kept; set sampling.keep_stop=true"
        )
        yield warning(("sampling.stop", "sampling.keep_stop"), text)


def sampling(config: TrainConfig) -> Iterator[Finding]:
    """Sampling from a part of the vocabulary: every scorer has to know the part."""
    options = config.sampling
    if not config.filters_tokens:
        if options.replay_mask:
            text = (
                "sampling.replay_mask=true with top_k=0, top_p=1 and min_p=0: every token can be drawn, so there is no "
                "set to record; filter the tokens, or set sampling.replay_mask=false"
            )
            yield error(("sampling.replay_mask",), text)
        return
    names = {"sampling.top_k": options.top_k > 0, "sampling.top_p": options.top_p < 1, "sampling.min_p": True}
    key = next(name for name, used in names.items() if used)
    given = f"{key}={getattr(options, key.partition('.')[2])}"
    if options.replay_mask:
        if options.top_k > KEPT_LIMIT:
            text = (
                f"sampling.top_k={options.top_k} with sampling.replay_mask=true: at most {KEPT_LIMIT} tokens are "
                f"recorded, and sampled from, at each position; take at most {KEPT_LIMIT}"
            )
            yield warning(("sampling.top_k", "sampling.replay_mask"), text)
        return
    uses = config.uses_of_old + (["kl.coefficient"] if config.uses_kl else [])
    if not uses:
        text = (
            f"{given} with sampling.replay_mask=false: the gradient is that of log-probabilities over the whole "
            "vocabulary, on samples from a part of it, which is biased; set sampling.replay_mask=true"
        )
        yield warning((key, "sampling.replay_mask"), text)
        return
    size = ""
    if options.top_p < 1:
        nats = -math.log(options.top_p)
        size = (
            f" (with top_p={options.top_p} by up to {nats:.3f} nats a token, {nats * options.max_new_tokens:.1f} nats "
            f"over {options.max_new_tokens} tokens)"
        )
    text = (
        f"{given} with sampling.replay_mask=false: the engine draws from the kept tokens alone and the trainer scores "
        f"over the whole vocabulary, so that log-probabilities of one and the same policy differ{size} and {uses[0]} "
        "compares two different distributions; set sampling.replay_mask=true, or sample from the whole vocabulary"
    )
    yield error((key, "sampling.replay_mask"), text)


def batch(config: TrainConfig) -> Iterator[Finding]:
    """Sizes that cannot be."""
    options, advantage = config.batch, config.advantage
    if options.samples_per_prompt == 1:
        estimator = advantage.estimator
        if estimator.needs_group:
            how = f"advantage.estimator={estimator.type}"
            if isinstance(estimator, Group):
                how = f"advantage.estimator.baseline={estimator.baseline}"
            text = (
                f"batch.samples_per_prompt=1 with {how}: a sample that is its own group has advantage 0, so nothing "
                "is learned; take at least 2 samples"
            )
            yield error(("batch.samples_per_prompt", how.partition("=")[0]), text)
        elif config.active_sampling.filter != "none":
            text = (
                f"active_sampling.filter={config.active_sampling.filter} with batch.samples_per_prompt=1: within a "
                "group of one nothing differs, so that no group is ever admitted; set active_sampling.filter=none"
            )
            yield error(("active_sampling.filter", "batch.samples_per_prompt"), text)
    if options.minibatches_per_step > options.prompts_per_step:
        text = (
            f"batch.minibatches_per_step={options.minibatches_per_step} is more than batch.prompts_per_step="
            f"{options.prompts_per_step}: a minibatch needs at least one group; take at most "
            f"{options.prompts_per_step}"
        )
        yield error(("batch.minibatches_per_step", "batch.prompts_per_step"), text)


def active_sampling(config: TrainConfig) -> Iterator[Finding]:
    """The filter, the refill and the retirement."""
    options, budget = config.active_sampling, "active_sampling.max_prompts_per_step_factor"
    advantage = config.advantage
    if not options.refill:
        yield from unused_option(config, budget, "active_sampling.refill=false", "set active_sampling.refill=true")
    elif options.filter == "none":
        text = (
            "active_sampling.refill=true with active_sampling.filter=none: no group is ever left out, so nothing is "
            "refilled; name a filter, or set active_sampling.refill=false"
        )
        yield warning(("active_sampling.refill", "active_sampling.filter"), text)
        yield from unused_option(config, budget, "active_sampling.filter=none", "name a filter")
    elif options.max_prompts_per_step_factor == 1:
        text = (
            f"{budget}=1.0 leaves no problems to refill with; raise it, or set active_sampling.refill=false "
            f"and leave it at its default"
        )
        yield warning((budget, "active_sampling.refill"), text)
    if options.filter == "correctness":
        yield from each_once(config, _filter_of_what_is_not_rewarded)
    if isinstance(advantage.estimator, Gdpo) and options.filter in ("correctness", "total"):
        text = (
            f"active_sampling.filter={options.filter} with advantage.estimator=gdpo: groups in which another reward "
            "varies, or in which rewards cancel in the total, are left out, and these are what gdpo is for; set "
            "active_sampling.filter=any_component"
        )
        yield warning(("active_sampling.filter", "advantage.estimator"), text)
    if not advantage.estimator.needs_group and options.filter != "none" and config.batch.samples_per_prompt > 1:
        text = (
            f"active_sampling.filter={options.filter} with advantage.estimator.baseline=none: without a baseline a "
            "group of equal rewards does have a gradient, and the filter leaves it out; set "
            "active_sampling.filter=none and active_sampling.refill=false"
        )
        yield warning(("active_sampling.filter", "advantage.estimator.baseline"), text)
    if all(map(is_generated, config.problems.train_sources)):
        because, remedy = f"problems.train={shown(config.problems.train)}", "train on a file, whose problems come again"
        yield from unused_option(config, "active_sampling.retire_accuracy", because, remedy)


def _filter_of_what_is_not_rewarded(table: Table) -> Iterator[Finding]:
    rewards = table.options
    if rewards.correctness.weight == 0 and CORRECTNESS not in (*rewards.conditions.values(), rewards.gate):
        key = table.key("correctness.weight")
        text = (
            f"active_sampling.filter=correctness with {key}=0: groups are chosen for something that is not rewarded; "
            "set active_sampling.filter=total"
        )
        yield warning(("active_sampling.filter", key), text)
