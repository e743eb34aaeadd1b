"""The report: its verdict, tables and curves from numbers worked out by hand, and the page in a browser."""

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupwise.errors import DataError
from groupwise.report.build import report_of, write_report
from groupwise.report.charts import charts_of, thinned
from groupwise.report.content import before_and_after, picked, verdict_of
from groupwise.report.mathml import mathml
from tests.support.browser import opened, serious_faults
from tests.support.runs import UNMEASURED, train
from tests.view.runs import HOSTILE, row, run_of


def fraction(value: float, low: float, high: float, n: int = 40) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": n}


def measured(value: float, low: float, high: float) -> dict[str, Any]:
    nothing = fraction(0.0, 0.0, 0.1)
    return {
        "accuracy": fraction(value, low, high), "pass_at": {"2": fraction(value, low, high)}, "format_rate": nothing,
        "truncated": nothing, "mean_tokens": 12.25,
    }  # fmt: skip


def summary(before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    return {"before": {} if before is None else {"sampled": before}, "after": {"sampled": after}}


ROWS = [{"step": step, "reward/total/mean": step / 10, "groups/all_right": 0.25} for step in (1, 2, 3)]
LOW, MIDDLE, HIGH = measured(0.2, 0.1, 0.3), measured(0.3, 0.25, 0.5), measured(0.6, 0.5, 0.7)


@pytest.mark.parametrize(
    ("made", "kind", "text"),
    [
        (
            summary(LOW, HIGH),
            "better",
            "Better on 40 held-out problems, sampled: 20.0 % [10.0, 30.0] before and 60.0",
        ),
        (summary(HIGH, LOW), "worse", "Worse on 40 held-out problems, sampled: 60.0 % [50.0, 70.0] before and 20.0 % "),
        (summary(LOW, MIDDLE), "open", "No clear change on 40 held-out problems"),
        (summary(None, HIGH), "none", "Finished after 3 steps. Nothing was measured on held-out problems."),
        (None, "open", "Not finished: step 3 of 9."),
    ],
)
def test_the_verdict(made: dict[str, Any] | None, kind: str, text: str) -> None:
    verdict = verdict_of(ROWS, 9, made)
    assert verdict.kind == kind
    assert verdict.text.startswith(text)


def test_before_and_after() -> None:
    assert before_and_after(summary(LOW, HIGH)) == [
        ("accuracy, sampled", "20.0 % [10.0, 30.0]", "60.0 % [50.0, 70.0]"),
        ("pass@2, sampled", "20.0 % [10.0, 30.0]", "60.0 % [50.0, 70.0]"),
        ("format kept, sampled", "0.0 % [0.0, 10.0]", "0.0 % [0.0, 10.0]"),
        ("truncated, sampled", "0.0 % [0.0, 10.0]", "0.0 % [0.0, 10.0]"),
        ("tokens, sampled", "12.2", "12.2"),
    ]
    assert before_and_after(None) == []


def test_the_curves() -> None:
    rows = [*ROWS, {"step": 4, "reward/total/mean": float("nan"), "eval/sampled/accuracy": 0.5}]
    made = {chart.title: chart for chart in charts_of(rows, summary(LOW, HIGH))}
    assert list(made) == ["Reward", "Accuracy", "Groups"]
    (total,) = made["Reward"].curves
    assert (total.name, total.points) == ("total", ((1.0, 0.1), (2.0, 0.2), (3.0, 0.3)))
    (accuracy,) = made["Accuracy"].curves
    assert [step for step, _ in accuracy.points] == [0.0, 4.0]
    assert [value for _, value in accuracy.points] == pytest.approx([20.0, 60.0])
    assert [list(part) for part in accuracy.interval] == [pytest.approx([0, 10, 30]), pytest.approx([4, 50, 70])]
    assert made["Groups"].curves[0].points[0] == (1.0, 25.0)


def test_measurements_in_the_middle_have_their_standard_errors() -> None:
    middle = {"eval/sampled/accuracy": 0.5, "eval/sampled/standard_error": 0.1}
    # The last one is measured again at the end.
    rows = [*ROWS[:2], {**ROWS[2], **middle}, {"step": 4, **middle}]
    made = {chart.title: chart for chart in charts_of(rows, summary(LOW, HIGH))}
    (accuracy,) = made["Accuracy"].curves
    assert sorted(accuracy.interval) == [
        pytest.approx((0, 10, 30)),
        pytest.approx((3, 50 - 19.6, 50 + 19.6), abs=1e-3),
        pytest.approx((4, 50, 70)),
    ]
    assert all(curve.interval == () for curve in made["Reward"].curves)


def test_long_curves_are_means_of_neighbours() -> None:
    made = thinned([(float(step), float(step % 2)) for step in range(1, 2001)], most=500)
    assert len(made) == 500
    assert made[0] == (2.5, 0.5)
    assert made[-1] == (1998.5, 0.5)


def test_the_completions_that_are_shown() -> None:
    first = [row(1, 0, "No idea", False), row(2, 0, "It is 4.", True)]
    last = [row(1, 0, "It is 2.", True), row(1, 1, "Two", True), row(2, 0, "It is 4.", True), row(2, 1, "5", False)]
    shown = dict(picked(first, last))
    best, worst, changed = shown.values()
    assert [one["completion"] for one in best] == ["It is 2.", "It is 4."]
    assert worst[0]["completion"] == "5"
    # Problem 1 went from 0.2 to 1.2, problem 2 from 1.2 to 0.7.
    assert [one["completion"] for one in changed] == ["No idea", "It is 2.", "It is 4.", "It is 4."]


def test_the_equation() -> None:
    made = mathml("J = (1/M) Σ_i min(r·A, x^2)")
    assert made.startswith('<math display="block"')
    assert "<msub><mo>Σ</mo><mrow><mi>i</mi></mrow></msub>" in made
    assert '<mi mathvariant="normal">min</mi>' in made
    assert "<msup><mi>x</mi><mrow><mn>2</mn></mrow></msup>" in made
    assert "<mo>&lt;</mo>" in mathml("a < b")


def data_of(page: str) -> Any:
    found = re.search(r'id="data">([^<]*)<', page)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    folder = run_of(tmp_path / "run", {1: [[row(0, 0, HOSTILE, True), row(0, 1, "no", False)]]})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in ROWS) + '{"step": 4, "rew')
    return folder


def test_what_a_model_wrote_is_data(hostile: Path) -> None:
    page = "".join(report_of(str(hostile)))
    assert HOSTILE not in page
    assert page.count("<script>") == 1
    assert HOSTILE in [one["completion"] for _, shown in data_of(page)["picked"] for one in shown]
    assert "default-src 'none'" in page
    assert len(page.encode()) < 3e6


def test_a_run_without_a_step(tmp_path: Path) -> None:
    run_of(tmp_path / "run", {})
    with pytest.raises(DataError, match="has finished no step yet"):
        write_report(str(tmp_path / "run"))
    with pytest.raises(DataError):
        write_report(str(tmp_path))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report") / "run"
    options = [*UNMEASURED, "problems.eval_problems=4", "run.steps=4", "problems.eval_every_steps=2"]
    assert train(folder, options=options) is not None
    return write_report(str(folder)).as_uri()


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest) -> Iterator[Any]:
    with opened(viewport={"width": 390, "height": 800}, color_scheme=request.param, bypass_csp=True) as page:
        yield page


@pytest.mark.slow
def test_the_page(page: Any, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("html[data-ready=yes]")
    charts = page.locator(".chart")
    assert charts.count() >= 12
    for index in range(charts.count()):
        assert charts.nth(index).locator("svg path").count() > 3
    # No wider than a phone.
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("#table-0 summary").click()
    # It is filled once the browser says that it is open.
    page.locator("#table-0 tbody tr").last.wait_for()
    assert page.locator("#table-0 tbody tr").count() == 4
    assert serious_faults(page) == []
    page.locator("#theme").click()
    assert page.locator(".chart svg").count() == charts.count()
