"""Measurements as tables for a person."""

from typing import Any

from rich.console import Console
from rich.table import Table

from groupwise.evaluate.measure import FORCED_GREEDY, FORCED_SAMPLED, GREEDY, SAMPLED

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


def summary_table(summary: dict[str, Any]) -> Table:
    """Before and after, side by side."""
    before, after = summary_rows(summary["before"]), summary_rows(summary["after"])
    problems = after[0][1]["n"]
    samples = summary["after"][SAMPLED]["samples_per_prompt"]
    table = Table(title=f"accuracy on {problems} unseen problems, {samples} samples each; 95 % intervals")
    table.add_column("")
    for name in ("before", "after", "change"):
        table.add_column(name, justify="right")
    for (label, old), (_, new) in zip(before, after, strict=True):
        table.add_row(label, percent(old), percent(new), f"{100 * (new['value'] - old['value']):+.1f}")
    lengths = [summary[side][SAMPLED]["mean_tokens"] for side in ("before", "after")]
    table.add_row("tokens, sampled", *(f"{length:.1f}" for length in lengths), f"{lengths[1] - lengths[0]:+.1f}")
    return table


def measurement_table(measured: dict[str, Any], title: str) -> Table:
    """One measurement of a model."""
    table = Table(title=title)
    table.add_column("")
    table.add_column("", justify="right")
    for label, estimate in summary_rows(measured):
        table.add_row(label, percent(estimate))
    table.add_row("tokens, sampled", f"{measured[SAMPLED]['mean_tokens']:.1f}")
    return table


def percent(estimate: dict[str, Any]) -> str:
    """A fraction with its interval."""
    return f"{100 * estimate['value']:.1f} % [{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"


def print_evaluation(result: dict[str, Any]) -> None:
    """The measurement as a table, below its remarks."""
    console = Console()
    for remark in result["remarks"]:
        console.print(remark, markup=False, highlight=False, soft_wrap=True)
    title = f"{result['model']} on {result['problems']} problems; 95 % intervals"
    console.print(measurement_table(result["measured"], title))


def print_summary(summary: dict[str, Any]) -> None:
    """The summary as a table, with where everything is."""
    console = Console()
    if summary["before"]:
        console.print(summary_table(summary))
    elif summary["after"]:
        console.print(measurement_table(summary["after"], "after training; 95 % intervals"))
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
