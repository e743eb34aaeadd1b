import itertools

import pytest
import torch

from groupwise.objective.metric import Metric, merge_metrics


def test_each_metric_is_merged_as_it_says() -> None:
    parts = [
        {"a": Metric(1.0, "sum"), "b": Metric(2.0, "mean", 1), "c": Metric(3.0, "max"), "d": Metric(3.0, "min")},
        {"a": Metric(4.0, "sum"), "b": Metric(torch.tensor(6.0), "mean", torch.tensor(3)), "c": Metric(1.0, "max")},
    ]
    assert merge_metrics(parts) == {
        "a": Metric(5.0, "sum", 2.0),
        "b": Metric(5.0, "mean", 4.0),
        "c": Metric(3.0, "max", 2.0),
        "d": Metric(3.0, "min", 1.0),
    }


def test_parts_of_weight_zero_are_dropped() -> None:
    empty = {"m": Metric(float("-inf"), "max", 0), "n": Metric(0.0, "mean", 0)}
    assert merge_metrics([empty, {"m": Metric(2.0, "max", 5)}]) == {"m": Metric(2.0, "max", 5.0)}
    assert merge_metrics([]) == {}


def test_the_order_of_sums_does_not_matter() -> None:
    parts = [{"s": Metric(x, "sum")} for x in (0.1, 1e16, -1e16, 0.2)]
    results = {merge_metrics(order)["s"].value for order in itertools.permutations(parts)}
    assert results == {0.30000000000000004}


def test_merging_twice_is_merging_once() -> None:
    parts = [{"m": Metric(float(x), "mean", x + 1)} for x in range(4)]
    twice = merge_metrics([merge_metrics(parts[:1]), merge_metrics(parts[1:])])
    assert twice["m"].value == pytest.approx(float(merge_metrics(parts)["m"].value))
    assert twice["m"].weight == 10


def test_one_name_has_one_reduction() -> None:
    with pytest.raises(ValueError, match="loss is reported with different reductions: mean, sum"):
        merge_metrics([{"loss": Metric(1.0, "sum")}, {"loss": Metric(1.0, "mean")}])
