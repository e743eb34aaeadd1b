"""What the commands besides `train` do: measure, sample, supervised training, and showing the configuration."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from groupwise.config import SftConfig, TrainConfig
from groupwise.config.compose import compose_sft_config, compose_train_config, dump_config
from groupwise.config.describe import describe_options
from groupwise.errors import UsageError
from groupwise.evaluate import sample as sampling
from groupwise.evaluate.tables import measurement_table
from groupwise.train.sft import SftProgress, SftResult, run_sft

SFT_REPORT_EVERY_STEPS = 50


def evaluate(model: str, problems: str, limit: int, samples: int, arguments: Sequence[str]) -> dict[str, Any]:
    """Measure a model."""
    config = compose_train_config(
        [
            *arguments,
            f"model.path={model}",
            f"problems.eval={problems}",
            f"problems.eval_problems={limit}",
            f"problems.eval_samples_per_prompt={samples}",
        ]
    )
    return sampling.evaluate(config)


def print_evaluation(result: dict[str, Any]) -> None:
    """The measurement as a table, under what is to be said of it."""
    console = Console()
    for remark in result["remarks"]:
        console.print(remark, markup=False, highlight=False, soft_wrap=True)
    title = f"{result['model']} on {result['problems']} problems; 95 % intervals"
    console.print(measurement_table(result["measured"], title))


def sample(
    model: str,
    question: str,
    samples: int,
    temperature: float,
    top_p: float,
    top_k: int,
    arguments: Sequence[str],
) -> list[sampling.Sampled]:
    """Answers of a model.

    Raises:
        UsageError: for an empty question.
    """
    if not question.strip():
        raise UsageError("the question is empty")
    config = compose_train_config([*arguments, f"model.path={model}"])
    return sampling.sample(config, question, samples, temperature, top_p, top_k)


def print_answers(answers: Sequence[sampling.Sampled]) -> None:
    """One answer after the other."""
    console = Console()
    for number, answer in enumerate(answers, start=1):
        end = "" if answer.finish_reason == "stop" else ", truncated"
        console.rule(f"{number}: {answer.tokens} tokens, {answer.mean_logp:.2f} nats per token{end}", align="left")
        console.print(answer.text, markup=False, highlight=False, soft_wrap=True)


def supervised(arguments: Sequence[str], to_stderr: bool) -> SftResult:
    """Supervised training, reported every so many steps."""
    config = compose_sft_config(arguments)
    console = Console(stderr=to_stderr)

    def report(progress: SftProgress) -> None:
        if progress.step % SFT_REPORT_EVERY_STEPS == 0 or progress.step in (1, progress.steps):
            console.print(
                f"step {progress.step}/{progress.steps}  loss {progress.token_loss:.4f} nats per token  "
                f"grad norm {progress.grad_norm:.3f}  lr {progress.lr:.2e}  {progress.seconds:.0f} s",
                highlight=False,
            )

    return run_sft(config, report)


def resolved_config(arguments: Sequence[str]) -> str:
    """All options of a configuration as YAML."""
    return dump_config(compose_train_config(arguments)).rstrip()


def describe_keys() -> str:
    """Every key of `train` and of `sft`."""
    lines = []
    for title, model in (("groupwise train", TrainConfig), ("groupwise sft", SftConfig)):
        lines.append(f"# {title}")
        for row in describe_options(model):
            value = "required" if row.required else f"= {row.default}"
            lines.append(f"{row.key}: {row.type} {value}")
            lines += [f"    {text}" for text in row.doc.splitlines()]
    return "\n".join(lines)
