"""The report of the run in a folder, as one page."""

import html
import math
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from groupwise import __version__
from groupwise.config import TrainConfig
from groupwise.config.compose import compose_train_config
from groupwise.config.merge import differences
from groupwise.config.yaml_document import write_yaml
from groupwise.errors import DataError
from groupwise.explaining.equation import equation_of
from groupwise.explaining.techniques import cards_of
from groupwise.health.finding import HealthFinding
from groupwise.health.rules import findings, not_judged
from groupwise.health.run import context_of
from groupwise.health.steps import rows_of
from groupwise.page import block, html_page
from groupwise.report.charts import charts_of
from groupwise.report.content import before_and_after, picked, verdict_of
from groupwise.report.mathml import mathml
from groupwise.track.disk import write_whole
from groupwise.track.rollouts import Row, read_rollouts, rollout_files
from groupwise.track.run_folder import RunFolder, where_it_began
from groupwise.track.watch import finished_steps

NAME = "report.html"
ENDS = 3
"""Of how many steps at the beginning and at the end completions are looked at."""


def write_report(path: str, output: Path | None = None) -> Path:
    """Write the report of the run in a folder, finished or not; where it is.

    Raises:
        DataError: if there is no run, or none that has finished a step.
    """
    target = output or Path(path) / NAME
    write_whole(target, "".join(report_of(path)).encode())
    return target


def report_of(path: str) -> Iterator[str]:
    """The page in parts. Raises as `write_report`."""
    with where_it_began(path) as began:
        folder = RunFolder.existing(began)
        config = compose_train_config([str(folder.config)])
        rows = list(finished_steps(folder.metrics))
        summary = folder.read_summary() if folder.summary.is_file() else None
        if not rows:
            raise DataError(f"'{path}' has finished no step yet: there is nothing to report")
        verdict = verdict_of(rows, config.run.steps, summary)
        files = rollout_files(folder.path)
        first = [row for step in list(files)[:ENDS] for row in _of_step(step, files[step])]
        last = [row for step in list(files)[-ENDS:] for row in _of_step(step, files[step])]
        charts = charts_of(rows, summary)
        steps = rows_of(rows, path)
        name = Path(path).resolve().name
        body = "\n".join(
            [
                f'<header class="top"><h1>{html.escape(name)} <span class="quiet">report</span></h1>',
                '<button type="button" id="theme">Theme</button></header>\n<main>',
                f'<p class="verdict {verdict.kind}" role="status">{html.escape(verdict.text)}</p>',
                *_findings(findings(steps, context_of(Path(began))), not_judged(steps)),
                *_table("Before and after", ("measured", "before", "after"), before_and_after(summary)),
                *_charts(len(charts), [chart.title for chart in charts]),
                '<section id="picked" aria-label="Completions"><h2>Completions</h2></section>' if last else "",
                *_made_with(config),
                *_environment(folder, summary),
                *_again(path, config),
                "</main>",
            ]
        )
        data = {"charts": [chart.to_json() for chart in charts], "picked": list(picked(first, last))}
        own = resources.files("groupwise.report")
        style, library, script = (
            own.joinpath(file).read_text("utf-8") for file in ("report.css", "echarts.common.min.js", "report.js")
        )
        return html_page(f"{name}: report", body, [style], [library, script], {"data": block(data)}, inline_styles=True)


def _findings(found: Sequence[HealthFinding], unjudged: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield '<section aria-label="Health"><h2>Health</h2>'
    yield '<ul class="findings">' if found else "<p>No rule found anything wrong.</p>"
    for one in found:
        rule, text = html.escape(one.rule.replace("_", " ")), html.escape(one.text)
        yield f'<li class="{one.severity}"><b>{one.severity}: {rule}</b>, from step {one.first_step}: {text}</li>'
    yield "</ul>" if found else ""
    if unjudged:
        count = sum(len(rules) for rules in unjudged.values())
        yield f"<details><summary>{count} rules could not be judged</summary><ul>"
        for lacking, rules in unjudged.items():
            names = ", ".join(rule.replace("_", " ") for rule in rules)
            yield f"<li>{html.escape(lacking)}: {html.escape(names)}</li>"
        yield "</ul></details>"
    yield "</section>"


def _of_step(step: int, file: Path) -> list[Row]:
    return [{**row, "step": step} for row in read_rollouts(file)]


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        return
    cells = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in head)
    title = html.escape(title)
    yield f'<section><h2>{title}</h2><div class="wide" tabindex="0" role="region" aria-label="{title}">'
    yield f"<table><thead><tr>{cells}</tr></thead><tbody>"
    for name, *values in rows:
        own = "".join(f"<td>{html.escape(value)}</td>" for value in values)
        yield f'<tr><th scope="row">{html.escape(name)}</th>{own}</tr>'
    yield "</tbody></table></div></section>"


def _charts(count: int, titles: Sequence[str]) -> Iterator[str]:
    yield '<section aria-label="Curves"><h2>Curves</h2><div class="charts">'
    for index, title in zip(range(count), titles, strict=True):
        yield (
            f'<figure><figcaption id="title-{index}">{html.escape(title)}</figcaption>'
            f'<div class="chart" id="chart-{index}" role="img" aria-labelledby="title-{index}"></div>'
            f'<details id="table-{index}"><summary>As a table</summary></details></figure>'
        )
    yield "</div></section>"


def _made_with(config: TrainConfig) -> Iterator[str]:
    equation = equation_of(config)
    yield "<section><h2>Objective, maximised</h2>"
    yield f'<div class="wide" tabindex="0" role="region" aria-label="Objective">{mathml(equation.objective)}</div><dl>'
    for symbol, meaning in equation.terms:
        yield f"<dt>{html.escape(symbol)}</dt><dd>{html.escape(meaning)}</dd>"
    yield "</dl><h3>Techniques</h3><ul>"
    for card in cards_of(config):
        number = "" if card.number is None else f"{card.number}. "
        name, what, source = map(html.escape, (card.name, card.what, card.source))
        yield f"<li>{number}<b>{name}</b>: {what} <cite>{source}</cite></li>"
    changed = write_yaml(differences(TrainConfig().model_dump(), config.model_dump()))
    yield f'</ul><h3>Options that differ from the defaults</h3><pre tabindex="0">{html.escape(changed)}</pre></section>'


def _environment(folder: RunFolder, summary: Mapping[str, Any] | None) -> Iterator[str]:
    context = folder.read_context()
    facts: list[tuple[str, str]] = [
        ("groupwise", str(context.get("groupwise", __version__))),
        ("torch", str(context.get("torch", ""))),
        ("report made on", f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"),
        ("initial weights", f"SHA-256 {context.get('initial_weights', '')}"),
        ("problems", str(context.get("problems", ""))),
    ]
    if summary is not None:
        wall, peak = float(summary["training_wall_seconds"]), float(summary["peak_memory_bytes"])
        facts += [
            ("tokens sampled", f"{summary['sampled_tokens']:,}"),
            ("training took", f"{wall / 60:.1f} minutes on {summary['threads']} threads"),
            ("peak memory", f"{peak / 2**20:,.0f} MiB" if math.isfinite(peak) else ""),
        ]
    yield from _table("Environment", ("", ""), [fact for fact in facts if fact[1]])


def _again(path: str, config: TrainConfig) -> Iterator[str]:
    command = f"groupwise train {Path(path) / 'config.yaml'} run.output={Path(path).name}-again"
    yield "<section><h2>Run it again</h2>"
    yield f'<pre tabindex="0">{html.escape(command)}</pre>'
    yield f"<p>The seed is {config.run.seed}; on the same machine the numbers are the same.</p></section>"
