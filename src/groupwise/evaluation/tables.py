"""Measurements as tables for a person."""

from typing import Any

from rich.console import Console
from rich.table import Table

from groupwise.evaluation.estimate import Estimate
from groupwise.evaluation.measure import FORCED_GREEDY, FORCED_SAMPLED, GREEDY, SAMPLED

MODE_LABELS = {
    GREEDY: "greedy",
    SAMPLED: "sampled",
    FORCED_GREEDY: "greedy, think forced",
    FORCED_SAMPLED: "sampled, think forced",
}


def summary_rows(measured: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Label and estimate of every row of a table, from one side of a summary."""
    rows = [(MODE_LABELS[mode], measured[mode]["accuracy"]) for mode in MODE_LABELS if mode in measured]
    rows += [
        (f"{MODE_LABELS[mode]}, {domain}", estimate)
        for mode in (GREEDY, SAMPLED)
        for domain, estimate in measured[mode]["accuracy_by_domain"].items()
    ]
    sampled = measured[SAMPLED]
    rows += [(f"pass@{k}", estimate) for k, estimate in list(sampled["pass_at"].items())[-1:]]
    rows += [
        ("format kept, sampled", sampled["format_rate"]),
        ("<think> used, sampled", sampled["thinks"]),
        ("no answer, sampled", sampled["no_answer"]),
        ("truncated, sampled", sampled["truncated"]),
    ]
    return rows


def measurement_table(title: str, *sides: dict[str, Any]) -> Table:
    """One measurement of a model; of two, those before and after side by side."""
    table = Table(title=title)
    table.add_column("")
    for name in ("before", "after", "change") if len(sides) == 2 else ("",):
        table.add_column(name, justify="right")
    for row in zip(*map(summary_rows, sides), strict=True):
        estimates = [estimate for _, estimate in row]
        shown = [str(Estimate(**estimate)) for estimate in estimates]
        table.add_row(row[0][0], *shown, *_change([estimate["value"] for estimate in estimates], 100))
    lengths = [side[SAMPLED]["mean_tokens"] for side in sides]
    table.add_row("tokens, sampled", *(f"{length:.1f}" for length in lengths), *_change(lengths))
    return table


def _change(values: list[float], scale: float = 1.0) -> list[str]:
    return [f"{scale * (values[1] - values[0]):+.1f}"] if len(values) == 2 else []


def print_evaluation(result: dict[str, Any]) -> None:
    """The measurement as a table, below its remarks."""
    console = Console()
    for remark in result["remarks"]:
        console.print(remark, markup=False, highlight=False, soft_wrap=True)
    title = f"{result['model']} on {result['problems']} problems; 95 % intervals"
    console.print(measurement_table(title, result["measured"]))


def print_summary(summary: dict[str, Any]) -> None:
    """The summary as a table, with where everything is."""
    console = Console()
    before, after = summary["before"], summary["after"]
    if before:
        problems, samples = after[SAMPLED]["accuracy"]["n"], after[SAMPLED]["samples_per_prompt"]
        title = f"accuracy on {problems} unseen problems, {samples} samples each; 95 % intervals"
        console.print(measurement_table(title, before, after))
    elif after:
        console.print(measurement_table("after training; 95 % intervals", after))
    minutes, cpu = summary["training_wall_seconds"] / 60, summary["training_cpu_seconds"] / 60
    threads = f"{summary['threads']} {'thread' if summary['threads'] == 1 else 'threads'}"
    console.print(
        f"{summary['steps']} steps, {summary['sampled_tokens']:,} tokens sampled, training took {minutes:.1f} min "
        f"({cpu:.1f} CPU-min on {threads}), peak memory {summary['peak_memory_bytes'] / 2**20:.0f} MiB",
        highlight=False,
        soft_wrap=True,
    )
    if summary["sandbox"] == "none":
        console.print("programs of the model ran WITHOUT a sandbox (sandbox.backend=none)", highlight=False)
    console.print(f"model {summary['model']}   summary {summary['run']}/summary.json", highlight=False, soft_wrap=True)
