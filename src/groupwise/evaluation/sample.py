"""`groupwise eval` and `groupwise sample`: a model answers, without training."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Literal

from rich.console import Console

from groupwise.config import TrainConfig
from groupwise.data.sources import eval_problems, read_files
from groupwise.errors import UsageError
from groupwise.evaluation.check_files import usable_rows
from groupwise.evaluation.measure import measure_all
from groupwise.grading.grader import Grader
from groupwise.model.choose_backend import choose_backend
from groupwise.model.device import choose_device, settled
from groupwise.model.load import Policy, load_policy
from groupwise.model.lora import with_adapters
from groupwise.model.prompt import PromptRenderer
from groupwise.model.startup_check import check_prompts
from groupwise.model.stop_check import check_stops
from groupwise.model.threads import ThreadChoice, choose_threads
from groupwise.problem import Message, Problem
from groupwise.ranks import Ranks
from groupwise.rollout.engine import SampleRequest, make_engine, sampling_params
from groupwise.rollout.sampling import derive_seed


def evaluate(config: TrainConfig, objects: Mapping[str, Callable[..., Any]] | None = None) -> dict[str, Any]:
    """Measure the configured model on the configured held-out problems. objects: see `GraderPool`.

    `remarks` are for people: which rows are left out, and where programs run.
    """
    files = read_files(config.problems, config.problems.eval_sources)
    policy, threads, renderer = _load(config)
    usable, remarks = usable_rows(config, files, renderer, policy.max_context_tokens)
    problems = eval_problems(config.problems, usable)
    longest = check_prompts(renderer, problems, policy, config.sampling.max_new_tokens)
    policy, slower = choose_backend(policy, config.model.backend, longest + config.sampling.max_new_tokens)
    remarks += [slower] if slower else []
    remarks += check_stops(renderer, renderer.render(problems[0].messages), policy, config.sampling)
    with (
        closing(make_engine(config, policy)) as engine,
        Grader(config, policy.tokenizer, policy.think_ids, objects) as grader,
    ):
        remarks += grader.check(problems, policy.tokenizer.encode)
        measured = measure_all(policy, engine, grader, problems, config, Ranks())
        sandbox = grader.sandbox_name
    return {
        "model": policy.name,
        "problems": len(problems),
        "threads": threads.threads,
        "sandbox": sandbox,
        "remarks": remarks,
        "measured": {mode: measurement.to_json() for mode, measurement in measured.items()},
    }


def _load(config: TrainConfig) -> tuple[Policy, ThreadChoice, PromptRenderer]:
    options, seed = config.model, derive_seed(config.run.seed, "adapters")
    device = choose_device(options.device).device
    dtype = settled(config, device).model.computes_in
    policy = load_policy(options.path, dtype, stop_ids=tuple(config.sampling.stop_ids), device=device)
    policy = with_adapters(policy, options.adapter, seed, options.weights_dtype)
    threads = choose_threads(config.run.threads, policy.model.config.hidden_size)
    return policy, threads, PromptRenderer(policy.tokenizer, config.prompt)


@dataclass(frozen=True)
class Sampled:
    """One answer to a question."""

    text: str
    tokens: int
    finish_reason: Literal["stop", "length"]
    mean_logp: float


def sample(
    config: TrainConfig, question: str, samples: int, temperature: float, top_p: float, top_k: int
) -> list[Sampled]:
    """Answers of the configured model to one question. Raises UsageError for an empty one."""
    if not question.strip():
        raise UsageError("the question is empty")
    policy, _, renderer = _load(config)
    problem = Problem("the question", (Message("user", question),), answer="")
    longest = check_prompts(renderer, [problem], policy, config.sampling.max_new_tokens)
    policy, _ = choose_backend(policy, config.model.backend, longest + config.sampling.max_new_tokens)
    prompt = renderer.render(problem.messages)
    check_stops(renderer, prompt, policy, config.sampling)
    seeds = tuple(derive_seed(config.run.seed, "sample command", g) for g in range(samples))
    sampling = sampling_params(config.sampling, policy.stop_ids)
    sampling = replace(sampling, temperature=temperature, top_k=top_k, top_p=top_p, record_kept=False)
    with closing(make_engine(config, policy)) as engine:
        (completions,) = engine.generate([SampleRequest(prompt.ids, seeds)], sampling)
    return [
        Sampled(
            text=policy.tokenizer.decode([int(token) for token in completion.ids], skip_special_tokens=False),
            tokens=len(completion.ids),
            finish_reason=completion.finish_reason,
            mean_logp=float(completion.logps.mean()),
        )
        for completion in completions
    ]


def print_answers(answers: Sequence[Sampled]) -> None:
    """One answer after the other."""
    console = Console()
    for number, answer in enumerate(answers, start=1):
        end = "" if answer.finish_reason == "stop" else ", truncated"
        console.rule(f"{number}: {answer.tokens} tokens, {answer.mean_logp:.2f} nats per token{end}", align="left")
        console.print(answer.text, markup=False, highlight=False, soft_wrap=True)
