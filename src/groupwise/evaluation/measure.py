"""Accuracy of a policy on held-out problems: greedy, sampled, and with the reasoning forced."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from groupwise.config import TrainConfig
from groupwise.errors import DataError
from groupwise.evaluation.estimate import Estimate, estimate_fraction, pass_at_k, standard_error
from groupwise.grading.graded_group import GradedGroup
from groupwise.grading.grader import Grader
from groupwise.grading.reward_options import CORRECTNESS, FORMAT
from groupwise.model.load import Policy
from groupwise.model.prompt import OPEN, PromptRenderer
from groupwise.problem import Problem
from groupwise.ranks import Ranks
from groupwise.rollout.engine import RolloutEngine, SampleRequest, SamplingParams, sampling_params
from groupwise.rollout.sampling import derive_seed


class UnmeasuredError(DataError):
    """Nothing that a policy answered could be judged."""


@dataclass(frozen=True)
class Measurement:
    """Results for one decoding mode.

    accuracy: fraction of right answers (pass@1). standard_error: of it, over problems. pass_at: k to pass@k, for every
    power of two up to the samples. format_rate: fraction that earns the format reward. thinks: fraction that uses the
    reasoning tags at all.
    accuracy_by_domain: where the problems are of several.
    """

    samples_per_prompt: int
    temperature: float
    accuracy: Estimate
    standard_error: float
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

    def to_metrics(self) -> dict[str, float]:
        """What a line of metrics has of it, by the names behind `eval/{mode}/`."""
        return {
            "accuracy": self.accuracy.value,
            "standard_error": self.standard_error,
            "problems": self.accuracy.n,
            "format_rate": self.format_rate.value,
            "tokens": self.mean_tokens,
            "truncated_fraction": self.truncated.value,
        }


def measure(
    policy: Policy,
    engine: RolloutEngine,
    renderer: PromptRenderer,
    grader: Grader,
    problems: Sequence[Problem],
    sampling: SamplingParams,
    samples_per_prompt: int,
    seed: int,
    ranks: Ranks,
) -> Measurement:
    """Sample every problem and grade. The seeds depend on (seed, problem, sample) alone: two policies are compared
    on the same random numbers. Each rank samples and grades its share, and all have the result.

    Raises:
        UnmeasuredError: if no answer could be judged.
    """
    everything, problems = problems, ranks.share(problems)
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
    own = [asdict(counts_of(group)) for group in groups]
    dealt = ranks.gather(own, "a measurement")
    counted = [Counts(**dealt[i % ranks.size][i // ranks.size]) for i in range(len(everything))]
    judged = [counts for counts in counted if not counts.fault]
    if not judged:
        raise UnmeasuredError(
            f"no answer to any of {len(everything)} problems could be judged; the first, to {counted[0].fault}"
        )
    return summarise(judged, samples_per_prompt, sampling.temperature)


@dataclass(frozen=True)
class Counts:
    """How many of the answers to a problem are right, and so on; tokens: of all. fault: why it could not be judged."""

    right: int
    formatted: int
    thinking: int
    truncated: int
    without_answer: int
    tokens: int
    domain: str
    fault: str = ""


def counts_of(group: GradedGroup) -> Counts:
    """What a measurement needs of a graded group."""
    correctness, format_ = group.names_K.index(CORRECTNESS), group.names_K.index(FORMAT)
    fault = ""
    if group.failed or group.dropped_G.any():
        first = group.failures()[0]
        fault = f"{first['source']}: {first['reason']}"
    return Counts(
        right=int(group.kept_right.sum()),
        formatted=int((group.rewards_GK[:, format_] == 1.0).sum()),
        thinking=sum(group.prompt.opened or OPEN in text for text in group.texts_G),
        truncated=sum(completion.finish_reason == "length" for completion in group.completions),
        without_answer=sum(row[correctness].status == "no_answer" for row in group.scores_GK),
        tokens=sum(len(completion.ids) for completion in group.completions),
        domain=group.problem.domain,
        fault=fault,
    )


def summarise(counts_P: Sequence[Counts], samples: int, temperature: float) -> Measurement:
    """The measurement of problems with as many answers each."""
    right_P = [counts.right for counts in counts_P]
    accuracy_P = [right / samples for right in right_P]
    domain_P = [counts.domain for counts in counts_P]
    ks = [2**i for i in range(1, samples.bit_length()) if 2**i <= samples]

    def fraction(of: Callable[[Counts], int]) -> Estimate:
        return estimate_fraction([of(counts) / samples for counts in counts_P], samples)

    return Measurement(
        samples_per_prompt=samples,
        temperature=temperature,
        accuracy=estimate_fraction(accuracy_P, samples),
        standard_error=standard_error(accuracy_P),
        pass_at={k: estimate_fraction([pass_at_k(samples, right, k) for right in right_P], samples) for k in ks},
        format_rate=fraction(lambda counts: counts.formatted),
        thinks=fraction(lambda counts: counts.thinking),
        truncated=fraction(lambda counts: counts.truncated),
        no_answer=fraction(lambda counts: counts.without_answer),
        mean_tokens=sum(counts.tokens for counts in counts_P) / (samples * len(counts_P)),
        accuracy_by_domain={
            domain: estimate_fraction(
                [own for own, its in zip(accuracy_P, domain_P, strict=True) if its == domain], samples
            )
            for domain in (sorted(set(domain_P)) if len(set(domain_P)) > 1 else ())
        },
    )


GREEDY, SAMPLED = "greedy", "sampled"
FORCED_GREEDY, FORCED_SAMPLED = "forced_think_greedy", "forced_think_sampled"


@dataclass(frozen=True)
class _Mode:
    """One decoding mode: how many answers to each problem, behind which beginning of the model's turn."""

    prefill: str
    sampling: SamplingParams
    samples: int


def _modes(policy: Policy, problems: Sequence[Problem], config: TrainConfig) -> dict[str, _Mode]:
    sampled = replace(sampling_params(config.sampling, policy.stop_ids), record_kept=False)
    greedy = replace(sampled, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0)
    samples = config.problems.eval_samples_per_prompt
    modes = {GREEDY: _Mode("", greedy, 1), SAMPLED: _Mode("", sampled, samples)}
    plain = PromptRenderer(policy.tokenizer, config.prompt)
    opened = OPEN in config.prompt.prefill or any(plain.render(problem.messages).opened for problem in problems[:1])
    if policy.think_ids is not None and not opened:
        modes |= {FORCED_GREEDY: _Mode(OPEN, greedy, 1), FORCED_SAMPLED: _Mode(OPEN, sampled, samples)}
    return modes


def answers_of(policy: Policy, problems: Sequence[Problem], config: TrainConfig) -> int:
    """How many answers `measure_all` samples."""
    return len(problems) * sum(mode.samples for mode in _modes(policy, problems, config).values())


def measure_all(
    policy: Policy,
    engine: RolloutEngine,
    grader: Grader,
    problems: Sequence[Problem],
    config: TrainConfig,
    ranks: Ranks,
) -> dict[str, Measurement]:
    """Greedy and sampled as in training (temperature, top-k, top-p, min-p), and both again with `<think>` forced, where
    the model has it.

    Forcing shows what of a gain is better reasoning and what is only reasoning more often.

    Raises:
        UnmeasuredError: if no answer could be judged.
    """
    grader, seed = grader.for_measuring(), config.run.seed
    measured = {}
    for name, mode in _modes(policy, problems, config).items():
        renderer = PromptRenderer(policy.tokenizer, config.prompt, mode.prefill)
        measured[name] = measure(policy, engine, renderer, grader, problems, mode.sampling, mode.samples, seed, ranks)
    return measured
