"""Groups divided over two processes: the same gradient, the same weights, the same measurements as in one."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.multiprocessing.spawn import spawn

from groupwise.ranks import Ranks
from tests.support.episodes import REDUCTIONS
from tests.support.ranks import work
from tests.support.tiny import relative_difference


def test_one_process_is_a_world_of_its_own() -> None:
    ranks = Ranks.current()
    assert ranks == Ranks(rank=0, size=1)
    assert ranks.share([3, 4, 5]) == [3, 4, 5]
    assert ranks.sum([0.5, 2.0]) == [0.5, 2.0]
    assert ranks.gather({"a": 1}) == [{"a": 1}]
    rows_N, own = ranks.concatenate(torch.tensor([0.1, 0.2], dtype=torch.float64))
    assert (rows_N.tolist(), rows_N[own].tolist()) == ([0.1, 0.2], [0.1, 0.2])
    gradient = torch.ones(2)
    ranks.sum_gradients([gradient])
    assert gradient.tolist() == [1, 1]


def test_shares_are_disjoint_and_complete() -> None:
    shares = [Ranks(rank, 3).share(list(range(8))) for rank in range(3)]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]


def part(folder: Path, size: int, rank: int, prefix: str) -> dict[str, torch.Tensor]:
    tensors = load_file(folder / f"tensors-{rank}-of-{size}.safetensors")
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def facts(folder: Path, size: int, rank: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"facts-{rank}-of-{size}.json").read_text())
    return found


@pytest.mark.slow
def test_two_processes_do_what_one_does(tmp_path: Path) -> None:
    work(0, 1, str(tmp_path))
    spawn(work, (2, str(tmp_path)), nprocs=2)
    for rank in range(2):
        for reduction in REDUCTIONS:
            prefix = f"{reduction}/"
            assert relative_difference(part(tmp_path, 2, rank, prefix), part(tmp_path, 1, 0, prefix)) < 1e-6
        for prefix in ("updated/", "uneven/", "divided/", "bapo/", "real/", "token_baseline/"):
            assert relative_difference(part(tmp_path, 2, rank, prefix), part(tmp_path, 1, 0, prefix)) < 1e-6
    # Both ranks take the same step, to the last bit: otherwise they would drift apart.
    for prefix in ("updated/", "uneven/", "divided/", "bapo/", "real/", "token_baseline/"):
        first, second = part(tmp_path, 2, 0, prefix), part(tmp_path, 2, 1, prefix)
        assert all(torch.equal(first[name], second[name]) for name in first)

    single = facts(tmp_path, 1, 0)
    ranks = [facts(tmp_path, 2, rank) for rank in range(2)]
    assert [found["rows"] for found in ranks] == [[[0, 1], []], [[0, 1], [0, 1]]]
    for found in ranks:
        assert found["totals"] == single["totals"]
        for name, measured in single["stepwise"].items():
            assert 0 < found["stepwise"][name]["policy/off_policy_masked_fraction"] < 0.5
            assert found["stepwise"][name] == pytest.approx(measured, rel=1e-5, abs=1e-6)
        assert found["metrics"] == pytest.approx(single["metrics"], rel=1e-5, abs=1e-6)
        assert found["collected"]["metrics"] == pytest.approx(single["collected"]["metrics"])
        assert found["collected"]["next_position"] == single["collected"]["next_position"]
        assert found["sum"] == [3.0, pytest.approx(0.2)]
        assert found["gather"] == [{"rank": 0, "text": ""}, {"rank": 1, "text": "é"}]
    advantages = ranks[0]["collected"]["advantages"] | ranks[1]["collected"]["advantages"]
    assert advantages.keys() == single["collected"]["advantages"].keys()
    for position, row in advantages.items():
        assert row == pytest.approx(single["collected"]["advantages"][position], rel=1e-12)
    for what in ("admitted", "sampled"):
        together = ranks[0]["collected"][what] + ranks[1]["collected"][what]
        assert sorted(together) == single["collected"][what]
