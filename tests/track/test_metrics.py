"""The registry: what a run writes is declared, what is declared is written, and the page is made from it."""

import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from groupwise.objective import surrogates
from groupwise.objective.metric import Metric, merge_metrics
from groupwise.objective.surrogates.surrogate import Surrogate
from groupwise.track.console import ConsoleTracker
from groupwise.track.metrics import LOG_RATIOS_N, METRICS, declared, finished
from groupwise.track.metrics_page import page
from groupwise.training import loop
from groupwise.training.run import compose_and_start
from tests.support.commands import SMALL
from tests.support.zoo import save

# Together these write every metric there is.
EVERYTHING = (
    ("objective.surrogate={type: function, path: examples/own_cispo.py:own_cispo}",),
    (
        "problems.eval_every_steps=1",
        "entropy.bonus={type: fixed, coefficient: 0.01}",
        "kl.coefficient=0.1",
        "objective.surrogate=bapo",
        "off_policy_mask=m2po",
        "domains.math.kl_coefficient=0.2",
        "rewards.functions.pieces.path=tests.support.span_rewards:pieces",
        "rewards.functions.pieces.returns=character_spans",
    ),
    (
        "model.compute_dtype=bfloat16",
        "objective.old_logps=trainer",
        "engine_correction={type: tis, cap: 1.001}",
        "off_policy_mask=sequence",
        "entropy.covariance=kl_cov",
        "objective.surrogate=real",
        "objective.reduction=sequence_mean_token_mean",
    ),
)


# No answer of random weights is right.
MIXTURE = ("active_sampling.filter=none", "active_sampling.refill=false", "model.router_aux_coefficient=0.1")


MERGES: dict[str, str] = {}
"""How the runs merged what they measured."""


def noted_merge(parts: Iterable[Mapping[str, Metric]]) -> dict[str, Metric]:
    merged = merge_metrics(parts)
    MERGES.update({name: metric.reduction for name, metric in merged.items()})
    return merged


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in metrics.jsonl of runs of two steps, domains as in the registry."""
    torch.set_num_threads(1)
    names: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "merge_metrics", noted_merge)
        experts = tmp_path_factory.mktemp("experts") / "model"
        save("Qwen3-MoE", experts)
        for number, options in enumerate([*EVERYTHING, (f"model.path={experts}", *MIXTURE)]):
            folder = tmp_path_factory.mktemp("metrics") / str(number)
            arguments = [*SMALL, "run.steps=2", "problems.eval_problems=4", *options, f"run.output={folder}"]
            assert compose_and_start(arguments, False, ConsoleTracker(Console(file=io.StringIO()))) is not None
            names |= {name for line in (folder / "metrics.jsonl").open() for name in json.loads(line)}
    return names


def test_what_a_run_writes_is_declared(written: set[str]) -> None:
    assert sorted(name for name in written if declared(name) is None) == []
    assert any(name.startswith("domain/math/policy/") for name in written)


def test_what_is_declared_is_written(written: set[str]) -> None:
    found = {metric.name for name in written if (metric := declared(name))}
    assert [metric.name for metric in METRICS if metric.name not in found] == []


def test_metrics_merge_as_declared(written: set[str]) -> None:
    found = {name: metric.merge for name in written & MERGES.keys() if (metric := declared(name))}
    assert found == {name: MERGES[name] for name in found}
    # All but those that are derived, or known once for the step.
    others = {metric.merge for name in written - found.keys() if (metric := declared(name))}
    assert others == {"derived", "once"}


def test_the_page_is_made_from_the_registry() -> None:
    assert Path("docs/metrics.md").read_text(encoding="utf-8") == page()


def test_bounds_that_leave_the_gradient_are_named() -> None:
    """Everywhere else a token at its bound has none."""
    kinds = [kind for kind in vars(surrogates).values() if isinstance(kind, type) and issubclass(kind, Surrogate)]
    leaving = {kind.__name__.upper() for kind in kinds if not kind.bounds_stop_gradient}
    assert leaving == {"CISPO", "TOPR", "ASPO", "CEGPPO"}
    found = declared("policy/clip_fraction_high_positive")
    assert found is not None
    assert "no gradient (CISPO, TOPR, ASPO, CE-GPPO: a bounded weight)" in found.meaning


def test_names_and_domains() -> None:
    found = declared("domain/a/b/reward/mine/std")
    assert found is not None
    assert found.name == "reward/{component}/std"
    assert declared("reward/mine/square_mean") is None
    assert declared("domain/math/optimizer/lr") is None


def test_derived_metrics() -> None:
    ratios_N = np.linspace(0.5, 1.5, 201)
    measured = {
        "reward/total/mean": 0.5,
        "reward/total/square_mean": 0.5,
        "reward/total/variance_within": 0.2,
        "reward/mine/covariance_within": 0.05,
        "domain/math/reward/total/variance_within": 0.0,
        "domain/math/reward/mine/covariance_within": 0.0,
        "advantage/square_mean_before_scaling": 0.09,
        "engine/weight_mean": 0.5,
        "engine/weight_square_mean": 1.0,
        LOG_RATIOS_N: np.log(ratios_N).astype(np.float32),
    }
    expected = {
        "advantage/std_before_scaling": 0.3,
        "engine/ess": 0.25,
        "engine/weight_mean": 0.5,
        "policy/ratio_p01": 0.51,
        "policy/ratio_p50": 1.0,
        "policy/ratio_p99": 1.49,
        "reward/mine/variance_fraction": 0.25,
        "reward/total/mean": 0.5,
        "reward/total/std": 0.5,
    }
    values = finished(measured)
    assert list(values) == list(expected)
    assert values == pytest.approx(expected, rel=1e-4)


def test_equal_numbers_have_no_spread_and_no_tokens_no_quantile() -> None:
    third = 1 / 3
    values = finished(
        {"advantage/mean": third, "advantage/square_mean": third**2 * (1 + 1e-15), LOG_RATIOS_N: ratios(0)}
    )
    assert values == {"advantage/mean": third, "advantage/std": 0.0}


def ratios(tokens: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.zeros(tokens, dtype=np.float32)
