"""The list of cases and the page that is made of it."""

import ast
import json
import re

from groupwise.config.compose import compose_train_config
from tests.battery.every import BLOCKS, CASES
from tests.battery.figures import FIGURES
from tests.battery.items import ITEMS
from tests.battery.score import CAUGHT, OUTCOMES, page, points
from tests.faults.every import FAULTS
from tests.faults.fault import ROOT


def exists(test: str) -> bool:
    path, _, name = test.partition("::")
    file = ROOT / path
    return file.is_file() and any(
        isinstance(node, ast.FunctionDef) and node.name == name.split("[")[0]
        for node in ast.parse(file.read_text(encoding="utf-8")).body
    )


def test_there_are_fifty_cases_of_a_hundred_points() -> None:
    assert [case.number for case in CASES] == list(range(1, 51))
    assert sum(case.points for case in CASES) == 100
    assert [sum(case.points for case in cases) for cases in BLOCKS.values()] == [30, 16, 16, 12, 10, 8, 8]
    assert all(bool(case.tests) != bool(case.lacks) for case in CASES)


def test_every_test_is_there() -> None:
    tests = [test for case in CASES for test in case.tests] + [test for item in ITEMS for test in item.tests]
    assert [test for test in tests if not exists(test)] == []


def test_every_kind_of_what_broke_in_use_has_a_test() -> None:
    names = [f"{kind}{number}" for kind, last in (("N", 6), ("S", 10), ("M", 12)) for number in range(1, last + 1)]
    assert [item.name for item in ITEMS] == names
    assert all(item.tests for item in ITEMS)


def test_m10_a_claim_about_the_kl_changes_one_thing() -> None:
    """Estimator with importance, reduction or coefficient: of the two runs of a claim, one of these differs."""
    text = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    options = dict(re.findall(r"^- (.+?): `(.+)`$", text, re.MULTILINE))
    pairs = re.findall(r"^\| [^|]*(?:k1|k3|KL)[^|]* \| ([^|]+) – ([^|]+) \|", text, re.MULTILINE)
    assert len(pairs) == 7
    for pair in pairs:
        kls = [compose_train_config(options[name].split()).kl for name in pair]
        parts = [((kl.estimator, kl.importance), kl.reduction, kl.coefficient) for kl in kls if kl.coefficient]
        assert len(parts) == 1 or sum(one != other for one, other in zip(*parts, strict=True)) == 1, pair


def test_the_figures_are_those_that_were_asked_for() -> None:
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    assert figures["SIGKILL"]["signals"] == figures["SIGTERM"]["signals"] == 50
    assert figures["sweep"]["operations"] > 100
    assert figures["growth"]["steps"][-1] == 2000


def test_what_notices_a_fault_is_there() -> None:
    caught = json.loads(CAUGHT.read_text(encoding="utf-8"))
    assert [fault.what for fault in FAULTS if not exists(caught.get(fault.what, ""))] == []


def test_the_points_that_were_promised() -> None:
    reached, possible, ran = points(json.loads(OUTCOMES.read_text(encoding="utf-8")))
    assert ran >= 42
    assert reached == possible
    assert reached >= 96


def test_the_page_is_made_from_the_last_run() -> None:
    assert (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8") == page()
