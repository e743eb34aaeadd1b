"""Accuracy of a policy on held-out problems: greedy, sampled, and with the reasoning forced."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from groupwise.config import TrainConfig
from groupwise.errors import DataError
from groupwise.evaluation.estimate import Estimate, estimate_fraction, pass_at_k
from groupwise.grading.graded_group import GradedGroup
from groupwise.grading.grader import Grader
from groupwise.grading.reward_options import CORRECTNESS, FORMAT
from groupwise.model.load import Policy
from groupwise.model.prompt import OPEN, PromptRenderer
from groupwise.problem import Problem
from groupwise.rollout.engine import RolloutEngine, SampleRequest, SamplingParams, sampling_params
from groupwise.rollout.sampling import derive_seed


class UnmeasuredError(DataError):
    """Nothing that a policy answered could be judged."""


@dataclass(frozen=True)
class Measurement:
    """Results for one decoding mode.

    accuracy: fraction of right answers (pass@1). pass_at: k to pass@k, for every power of two up to the samples.
    format_rate: fraction that earns the format reward. thinks: fraction that uses the reasoning tags at all.
    accuracy_by_domain: where the problems are of several.
    """

    samples_per_prompt: int
    temperature: float
    accuracy: Estimate
    pass_at: dict[int, Estimate]
    format_rate: Estimate
    thinks: Estimate
    truncated: Estimate
    no_answer: Estimate
    mean_tokens: float
    accuracy_by_domain: dict[str, Estimate]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def measure(
    policy: Policy,
    engine: RolloutEngine,
    renderer: PromptRenderer,
    grader: Grader,
    problems: Sequence[Problem],
    sampling: SamplingParams,
    samples_per_prompt: int,
    seed: int,
) -> Measurement:
    """Sample every problem and grade. The seeds depend on (seed, problem, sample) alone: two policies are compared
    on the same random numbers.

    Raises:
        UnmeasuredError: if no answer could be judged.
    """
    prompts = [renderer.render(problem.messages) for problem in problems]
    requests = [
        SampleRequest(prompt.ids, tuple(derive_seed(seed, "measure", problem.id, g) for g in range(samples_per_prompt)))
        for problem, prompt in zip(problems, prompts, strict=True)
    ]
    pending = {
        index: grader.submit(index, problems[index], prompts[index], completions, policy.stop_ids)
        for index, completions in engine.stream(requests, sampling)
    }
    groups = [grader.result(pending[index]) for index in range(len(problems))]
    judged = [group for group in groups if not group.failed and not group.dropped_G.any()]
    if not judged:
        first = groups[0].failures()[0]
        raise UnmeasuredError(
            f"no answer to any of {len(problems)} problems could be judged; the first, to {first['source']}: "
            f"{first['reason']}"
        )
    return summarise(judged, sampling.temperature)


def summarise(groups: Sequence[GradedGroup], temperature: float) -> Measurement:
    """The measurement of graded groups of equal size."""
    samples = len(groups[0].completions)
    names_K = groups[0].names_K
    correctness, format_ = names_K.index(CORRECTNESS), names_K.index(FORMAT)
    right_P = [int(group.kept_right.sum()) for group in groups]
    accuracy_P = [right / samples for right in right_P]
    domain_P = [group.problem.domain for group in groups]
    ks = [2**i for i in range(1, samples.bit_length()) if 2**i <= samples]
    tokens = [len(completion.ids) for group in groups for completion in group.completions]

    def fraction(flags_PG: list[list[bool]]) -> Estimate:
        return estimate_fraction([sum(flags) / len(flags) for flags in flags_PG], samples)

    return Measurement(
        samples_per_prompt=samples,
        temperature=temperature,
        accuracy=estimate_fraction(accuracy_P, samples),
        pass_at={k: estimate_fraction([pass_at_k(samples, right, k) for right in right_P], samples) for k in ks},
        format_rate=fraction([[bool(reward == 1.0) for reward in group.rewards_GK[:, format_]] for group in groups]),
        thinks=fraction([[group.prompt.opened or OPEN in text for text in group.texts_G] for group in groups]),
        truncated=fraction([[c.finish_reason == "length" for c in group.completions] for group in groups]),
        no_answer=fraction([[row[correctness].status == "no_answer" for row in group.scores_GK] for group in groups]),
        mean_tokens=sum(tokens) / len(tokens),
        accuracy_by_domain={
            domain: estimate_fraction(
                [own for own, its in zip(accuracy_P, domain_P, strict=True) if its == domain], samples
            )
            for domain in (sorted(set(domain_P)) if len(set(domain_P)) > 1 else ())
        },
    )


GREEDY, SAMPLED = "greedy", "sampled"
FORCED_GREEDY, FORCED_SAMPLED = "forced_think_greedy", "forced_think_sampled"


def measure_all(
    policy: Policy, engine: RolloutEngine, grader: Grader, problems: Sequence[Problem], config: TrainConfig
) -> dict[str, Measurement]:
    """Greedy and sampled as in training (temperature, top-k, top-p, min-p), and both again with `<think>` forced, where
    the model has it.

    Forcing shows what of a gain is better reasoning and what is only reasoning more often.

    Raises:
        UnmeasuredError: if no answer could be judged.
    """
    grader = grader.for_measuring()
    sampled = replace(sampling_params(config.sampling, policy.stop_ids), record_kept=False)
    greedy = replace(sampled, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0)
    modes = {GREEDY: ("", greedy), SAMPLED: ("", sampled)}
    plain = PromptRenderer(policy.tokenizer, config.prompt)
    opened = OPEN in config.prompt.prefill or any(plain.render(problem.messages).opened for problem in problems[:1])
    if policy.think_ids is not None and not opened:
        modes |= {FORCED_GREEDY: (OPEN, greedy), FORCED_SAMPLED: (OPEN, sampled)}
    measured = {}
    for name, (prefill, sampling) in modes.items():
        samples = config.problems.eval_samples_per_prompt if sampling is sampled else 1
        renderer = PromptRenderer(policy.tokenizer, config.prompt, prefill)
        measured[name] = measure(policy, engine, renderer, grader, problems, sampling, samples, config.run.seed)
    return measured
