"""Which device a run takes, what it computes in there, and what is said of one that is not there."""

from pathlib import Path

import pytest
import torch

from groupwise.config.compose import compose_train_config
from groupwise.errors import UsageError
from groupwise.model.device import CPU, choose_device, is_left_open, settled
from groupwise.training.setup import arithmetic_remarks
from tests.support.pretend_cards import cuda_devices
from tests.support.runs import train

CARD = torch.device("cuda", 0)


def test_auto_is_the_accelerator_that_torch_finds() -> None:
    with cuda_devices(2, current=1) as chosen:
        assert choose_device("auto").device == torch.device("cuda", 1)
        assert choose_device("cpu").device == CPU
        assert choose_device("cuda:0").device == CARD
    assert chosen == [1, 0]
    with cuda_devices(0):
        assert choose_device("auto").device == CPU


def test_each_rank_takes_the_next_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    with cuda_devices(2):
        assert choose_device("auto", ranks=4).device == torch.device("cuda", 1)
        with pytest.raises(UsageError, match=r"model\.device=cuda:0 with 4 ranks: set cuda"):
            choose_device("cuda:0", ranks=4)
    with cuda_devices(1), pytest.raises(UsageError, match=r"LOCAL_RANK=1: this machine has 1 device .* 1 ranks"):
        choose_device("auto", ranks=2)


@pytest.mark.parametrize(
    ("name", "cards", "said"),
    [
        ("cuda", 0, "finds no accelerator on this machine; set model.device=auto"),
        ("mps", 1, "finds cuda alone on this machine"),
        ("cuda:3", 2, "model.device=cuda:3: this machine has 2 devices of the kind cuda, counted from 0"),
    ],
)
def test_a_device_that_is_not_there(name: str, cards: int, said: str) -> None:
    with cuda_devices(cards), pytest.raises(UsageError, match=said):
        choose_device(name)


def test_nothing_is_loaded_or_made_for_a_device_that_is_not_there(tmp_path: Path) -> None:
    with cuda_devices(0), pytest.raises(UsageError, match=r"model\.device=xpu:1: torch"):
        train(tmp_path / "run", "model.device=xpu:1", "model.path=/nowhere")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", ["gpu", "cuda:", "cpu:0", "CUDA"])
def test_what_is_no_name_of_a_device(wrong: str) -> None:
    with pytest.raises(UsageError, match=r"model\.device"):
        compose_train_config([f"model.device='{wrong}'"])


def test_arithmetic_follows_the_device_unless_it_is_stated() -> None:
    made = {
        (stated, device.type): settled(compose_train_config([f"model.compute_dtype={stated}"]), device)
        for stated in ("auto", "float32", "bfloat16")
        for device in (CPU, CARD)
    }
    assert {key: config.model.compute_dtype for key, config in made.items()} == {
        ("auto", "cpu"): "float32",
        ("auto", "cuda"): "bfloat16",
        ("float32", "cpu"): "float32",
        ("float32", "cuda"): "float32",
        ("bfloat16", "cpu"): "bfloat16",
        ("bfloat16", "cuda"): "bfloat16",
    }
    with cuda_devices(1):
        shown = choose_device("cuda").shown("bfloat16")
    assert shown == "cuda:0 (card 0): products in bfloat16, weights in float32, TF32 off"


def test_what_bfloat16_makes_unsound_is_said_once_the_device_is_known() -> None:
    config = compose_train_config(["batch.minibatches_per_step=2", "batch.prompts_per_step=2"])
    assert arithmetic_remarks(config, settled(config, CPU)) == []
    assert ["objective.old_logps=trainer" in text for text in arithmetic_remarks(config, settled(config, CARD))] == [
        True
    ]


def test_micro_batches_may_grow_on_an_accelerator_where_none_are_stated() -> None:
    stated, unstated = compose_train_config(["batch.micro_batch_tokens=1024"]), compose_train_config([])
    assert [is_left_open(c, d) for c in (stated, unstated) for d in (CPU, CARD)] == [False, False, False, True]
