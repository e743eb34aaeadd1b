"""Cases of engines outside of this process: what vLLM is started with, and what servers are sent."""

import os
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from groupwise.config import TrainConfig
from groupwise.errors import GroupwiseError
from groupwise.model.device import choose_device
from groupwise.model.load import load_policy
from groupwise.model.size import size_of
from groupwise.ranks import Ranks
from groupwise.rollout.engine_options import VllmBase, VllmServer
from groupwise.rollout.vllm.arguments import as_flags, dtype_of, engine_arguments
from groupwise.rollout.vllm.server import VllmServerEngine
from groupwise.training import setup
from groupwise.training.setup import is_divided
from tests.options.case import ByHand
from tests.support.fake_vllm import FakeVllm
from tests.support.pretend_cards import cuda_devices

IN_PROCESS, SERVER = "engine=vllm", "engine=vllm_server"
WEIGHTS = sum(weight.numel() for weight in load_policy("bundled").model.parameters())
HANDED = str(Path(tempfile.gettempdir()) / f"groupwise-test-{os.getpid()}")


def started_with(name: str, is_cpu: bool = False) -> Any:
    """The value that vLLM is given under this name, in process and to a server."""

    def observe(config: TrainConfig) -> Any:
        options = config.engine
        assert isinstance(options, VllmBase)
        policy = load_policy("bundled", config.model.computes_in)
        given = engine_arguments(options, dtype_of(options, policy), 4096, is_cpu)
        flags = list(as_flags(given))
        flag = "--" + name.replace("_", "-")
        value = given[name]
        assert (flag in flags) == (value is not False)
        assert isinstance(value, bool) or flags[flags.index(flag) + 1] == str(value)
        return value

    return observe


def dtypes(config: TrainConfig) -> str:
    """What vLLM computes in: `auto` where that is the trainer's, whatever it is."""
    of_trainers = [
        started_with("dtype")(
            config.model_copy(update={"model": config.model.model_copy(update={"compute_dtype": name})})
        )
        for name in ("float32", "bfloat16")
    ]
    return "auto" if of_trainers == ["float32", "bfloat16"] else "/".join(sorted(set(of_trainers)))


def bytes_needed(config: TrainConfig) -> int:
    policy = load_policy("bundled")
    needed = config.engine.memory(config, size_of(policy.model))
    # What sampling in this process needs beyond the weights is measured elsewhere.
    return needed.weights if config.engine.type == "inprocess" else needed.total


def device(config: TrainConfig) -> str:
    """Where the model is on a machine with two cards."""
    with cuda_devices(2):
        return str(choose_device(config.model.device).device)


def divided_between_two(config: TrainConfig) -> tuple[bool, bool]:
    """Whether two ranks divide the weights: on a CPU, and on cards that have room for the weights alone."""
    policy = load_policy("bundled")
    card: Any = SimpleNamespace(model=policy.model, device=torch.device("cuda"))
    with (
        patch.object(Ranks, "gather", lambda _ranks, value: [value, value]),
        patch.object(setup, "free_bytes", lambda _device, _ranks: 4 * WEIGHTS),
    ):
        return is_divided(config, policy, Ranks(0, 2)), is_divided(config, card, Ranks(0, 2))


def sent(config: TrainConfig) -> dict[str, Any]:
    """Where a server finds weights, and the key that it is sent."""
    options = config.engine
    assert isinstance(options, VllmServer)
    with FakeVllm(load_policy("bundled")) as fake, patch.dict(os.environ, {"GROUPWISE_KEY": "secret"}):
        changed = options.model_copy(update={"addresses": [fake.address]})
        VllmServerEngine(load_policy("bundled"), changed, print).close()
        (folder,) = fake.folders
        return {"below": Path(folder).parent.parent, "keys": set(fake.keys)}


def reaches_a_late_server(config: TrainConfig) -> bool:
    options = config.engine
    assert isinstance(options, VllmServer)
    with FakeVllm(load_policy("bundled")) as fake:
        changed = options.model_copy(update={"addresses": [fake.address]})
        began = time.monotonic()
        fake.before_answer = lambda _path, _count: 503 if time.monotonic() < began + 0.8 else None
        try:
            VllmServerEngine(load_policy("bundled"), changed, print).close()
        except GroupwiseError:
            return False
        return True


SHARED = Path("/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir())
GIB = 1 << 30

ENGINES: dict[str, ByHand] = {
    "model.shard": ByHand({"auto": (False, True), "none": (False, False), "full": (True, True)}, divided_between_two),
    "model.device": ByHand({"auto": "cuda:0", "cpu": "cpu", "cuda:1": "cuda:1"}, device),
    # What 4 bytes each of the weights need: in their place, while they are handed over, or nothing of the trainer's.
    "engine": ByHand(
        {
            "inprocess": 0,
            "vllm": 4 * GIB + 2 * 4 * WEIGHTS,
            "{type: vllm_server, cache_gib: 1.5}": GIB * 3 // 2 + 2 * 4 * WEIGHTS,
        },
        bytes_needed,
    ),
    "engine.batch_sequences (vllm)": ByHand({"5": 5, "12": 12}, started_with("max_num_seqs")),
    "engine.batch_sequences (vllm_server)": ByHand({"5": 5, "12": 12}, started_with("max_num_seqs")),
    "engine.dtype": ByHand({"auto": "auto", "float32": "float32", "bfloat16": "bfloat16"}, dtypes, base=(SERVER,)),
    "engine.context_tokens": ByHand({"null": 4096, "512": 512}, started_with("max_model_len"), base=(SERVER,)),
    "engine.cache_gib": ByHand(
        {"0.5": GIB // 2, "3.0": 3 * GIB}, started_with("kv_cache_memory_bytes"), base=(IN_PROCESS,)
    ),
    "engine.enforce_eager": ByHand({"false": False, "true": True}, started_with("enforce_eager"), base=(IN_PROCESS,)),
    # Those of servers elsewhere are written for them, one copy at a time.
    "engine.addresses": ByHand(
        {"[]": 4 * GIB + 2 * 4 * WEIGHTS, "['http://127.0.0.1:9']": 4 * WEIGHTS}, bytes_needed, base=(SERVER,)
    ),
    "engine.folder": ByHand({"": SHARED, HANDED: Path(HANDED)}, lambda config: sent(config)["below"], base=(SERVER,)),
    "engine.api_key_variable": ByHand(
        {"": {None}, "GROUPWISE_KEY": {"Bearer secret"}}, lambda config: sent(config)["keys"], base=(SERVER,)
    ),
    "engine.wait_seconds": ByHand({"0.2": False, "60.0": True}, reaches_a_late_server, base=(SERVER,)),
}
