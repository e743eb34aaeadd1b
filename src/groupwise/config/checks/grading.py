"""Checks of the domains, and of how the work of grading is done."""

from collections.abc import Iterator

from groupwise.config import TrainConfig
from groupwise.config.data import DOMAIN_OF_GENERATED
from groupwise.findings import Finding, error, shown, unused_option, warning
from groupwise.problem import GYM_PREFIX


def domains(config: TrainConfig) -> Iterator[Finding]:
    """Domains that state nothing, or that no problem belongs to."""
    trained = config.trained_domains
    for name, domain in config.domains.items():
        if domain.kl_coefficient is None and domain.rewards == config.rewards:
            text = (
                f"domains.{name} states nothing that differs: its problems are treated as all others; state its "
                "rewards or its kl_coefficient, or leave it out"
            )
            yield warning((f"domains.{name}.rewards",), text)
        elif trained and name not in trained:
            text = (
                f"domains.{name} with problems.train={shown(config.problems.train)}: no problem is of this domain, "
                f"they are of {' and '.join(trained)}; train on problems of it too, or leave it out"
            )
            yield warning((f"domains.{name}.rewards", "problems.train"), text)


# What the problems of a generated source come with, and so who can judge them.
_JUDGED_AS = {"arithmetic": ("math", "an answer and no tests"), "toy_code": ("code", "tests and no answer")}


def graders(config: TrainConfig) -> Iterator[Finding]:
    """Generated problems that their grader has nothing to go by for."""
    for source in config.problems.train_sources:
        kind, has = _JUDGED_AS.get(source, ("", ""))
        domain = DOMAIN_OF_GENERATED.get(source, "")
        grader = config.rewards_of(domain).correctness.grader
        if kind and grader in ("math", "code") and grader != kind:
            key = "rewards.correctness.grader"
            if domain in config.domains and grader != config.rewards.correctness.grader:
                key = f"domains.{domain}.{key}"
            text = (
                f"{key}={grader} with {source} in problems.train: its problems have {has}; set it to auto, or for one "
                f"domain alone in domains.{domain}.rewards.correctness.grader"
            )
            yield error((key, "problems.train"), text)


def workers(config: TrainConfig) -> Iterator[Finding]:
    """Options for functions and for a second grader that are not there."""
    tables = config.reward_tables().values()
    second = any(table.correctness.second_grader != "none" for table in tables)
    scored = any(source.startswith(GYM_PREFIX) for source in config.problems.train_sources)
    if not (any(table.functions for table in tables) or second or scored):
        remedy = "name a function of your own in rewards.functions"
        yield from unused_option(config, "grading.workers", "rewards.functions={}", remedy)
    if not second:
        because, remedy = "rewards.correctness.second_grader=none", "name a second grader"
        yield from unused_option(config, "grading.second_grader_seconds", because, remedy)


def sandbox(config: TrainConfig) -> Iterator[Finding]:
    """Programs of the model without a wall around them."""
    if config.sandbox.backend == "none":
        text = (
            "sandbox.backend=none: programs that the model writes run with nothing but resource limits, and can read, "
            "write and connect as you can; set sandbox.backend=auto"
        )
        yield warning(("sandbox.backend",), text)
