"""A whole run on a device that is not the CPU: a pretend one, see `tests/support/pretend.py`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.support.commands import tree
from tests.support.runs import assert_same_run, metrics

pytestmark = pytest.mark.slow

NEWEST = "checkpoints/step_000004"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("device")
    subprocess.run([sys.executable, "-m", "tests.support.on_pretend", str(folder)], check=True)
    return folder


def test_devices_do_not_mix(runs: Path) -> None:
    assert "expected all tensors on one device, but found (3,) on pretend:0, (3,) on cpu" in said(runs)["mixed"]


def said(runs: Path) -> Any:
    return json.loads((runs / "said.json").read_text())


def test_a_run_is_that_of_the_cpu_within_rounding(runs: Path) -> None:
    """Attention is computed in tiles on a CPU and on padded blocks elsewhere: the same sums in another order."""
    cpu, device = runs / "cpu", runs / "device"
    assert tree(cpu / "rollouts").keys() == tree(device / "rollouts").keys()
    for line, other in zip(metrics(cpu), metrics(device), strict=True):
        assert line.keys() == other.keys()
        assert line["optimizer/updates"] == 2
        off = [name for name in line if abs(line[name] - other[name]) > 1e-5 + 1e-5 * abs(line[name])]
        assert off == []
    one, other = (load_file(folder / NEWEST / "weights.safetensors") for folder in (cpu, device))
    assert one.keys() == other.keys()
    # Eight updates of up to 1e-3: Adam magnifies the rounding of gradients that are nearly zero.
    assert max(float((one[name] - other[name]).abs().max()) for name in one) < 5e-5
    assert any(note.startswith("device    pretend:0: products in float32") for note in said(runs)["notes"])


def test_a_resumed_run_is_the_uninterrupted_one(runs: Path) -> None:
    assert_same_run(runs / "resumed", runs / "device")


def test_sampling_waits_once_for_each_token(runs: Path) -> None:
    waits = said(runs)["waits"]["sampling"]
    assert waits["12"] - waits["4"] == 12 - 4


def test_an_update_waits_thrice_however_many_micro_batches_it_has(runs: Path) -> None:
    """For the values of its tokens, the norm of its gradient, and its metrics."""
    waits = said(runs)["waits"]["updates"]
    assert waits["32"] == waits["1024"] == [3, 3]


def test_the_check_of_a_card_says_that_there_is_none(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    arguments = ["--device", "cpu", "--steps", "2", "--output", str(tmp_path / "report")]
    subprocess.run([sys.executable, root / "benchmarks" / "gpu_check.py", *arguments], check=True, capture_output=True)
    made = json.loads((tmp_path / "report.json").read_text())
    assert made["parity"]["float32"] == {"largest_logp_gap_nats": 0.0, "gradient_gap": 0.0}
    assert made["parity"]["same_sampled_answers"] == made["parity"]["sampled_answers"] == 8
    assert made["speed"]["groupwise"]["tokens_per_second"] > 0
    assert made["is_dry"]
    assert "No accelerator on this machine" in (tmp_path / "report.md").read_text()
