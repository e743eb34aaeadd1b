"""Servers as the engine, before one that speaks vLLM's protocol and is disturbed. What vLLM itself does is tested in
`test_vllm.py`."""

import gc
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from groupwise.errors import BrokenRunError, GroupwiseError, UsageError
from groupwise.model.load import load_policy
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.engine_options import VllmServer
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.rollout.vllm.client import checked_address
from groupwise.rollout.vllm.server import VllmServerEngine
from tests.support.fake_vllm import FakeVllm
from tests.support.runs import Quiet, train

SAMPLING = SamplingParams(temperature=1.0, max_new_tokens=12, stop_ids=(2,))
REQUESTS = [SampleRequest(np.arange(5, 12), (11, 12, 13)), SampleRequest(np.arange(20, 23), (14, 15))]


@pytest.fixture
def fake() -> Iterator[FakeVllm]:
    with FakeVllm(load_policy("bundled")) as server:
        yield server


def engine_of(*fakes: FakeVllm, said: list[str] | None = None, **options: Any) -> VllmServerEngine:
    options = {"wait_seconds": 5.0, **options}
    made = VllmServer(addresses=[fake.address for fake in fakes], **options)
    return VllmServerEngine(load_policy("bundled"), made, print if said is None else said.append)


def ids_of(answers: Any) -> list[list[list[int]]]:
    return [[one.ids.tolist() for one in own] for own in answers]


def expected() -> list[list[list[int]]]:
    return ids_of(InProcessEngine(load_policy("bundled"), 8).generate(REQUESTS, SAMPLING))


def test_what_is_sampled_is_what_the_server_sampled(fake: FakeVllm) -> None:
    said: list[str] = []
    engine = engine_of(fake, said=said)
    answers = engine.generate(REQUESTS, SAMPLING)
    own = InProcessEngine(load_policy("bundled"), 8).generate(REQUESTS, SAMPLING)
    assert ids_of(answers) == ids_of(own)
    for one, other in zip(answers[0], own[0], strict=True):
        np.testing.assert_allclose(one.logps, other.logps, atol=1e-5)
        assert (one.finish_reason, one.version) == (other.finish_reason, 0)
    assert said == [f"vllm      {fake.address}; 47 of 47 tensors read back and equal"]
    engine.close()


def test_sets_that_were_sampled_from(fake: FakeVllm) -> None:
    sampling = SamplingParams(0.7, 12, (2,), top_k=5, top_p=0.9, record_kept=True)
    engine = engine_of(fake)
    (one, *_), _ = engine.generate(REQUESTS, sampling)
    (other, *_), _ = InProcessEngine(load_policy("bundled"), 8).generate(REQUESTS, sampling)
    assert one.kept is not None
    assert other.kept is not None
    assert one.kept.counts_T.tolist() == other.kept.counts_T.tolist()
    assert one.kept.ids.tolist() == other.kept.ids.tolist()
    engine.close()


def test_new_weights_go_through_a_new_folder_and_the_old_one_goes(fake: FakeVllm) -> None:
    engine = engine_of(fake)
    changed = load_policy("bundled")
    with torch.no_grad():
        for weight in changed.model.parameters():
            weight.mul_(1.05)
    engine.load_weights(changed.weights(), 1)
    first, second = fake.folders
    assert first != second
    assert not Path(first).exists()
    assert Path(second).is_dir()
    assert ids_of(engine.generate(REQUESTS, SAMPLING)) == ids_of(
        InProcessEngine(changed, 8).generate(REQUESTS, SAMPLING)
    )
    order = [path for path in fake.paths if path not in ("/weight_info", "/inference/v1/generate")]
    # The cache is empty, and what is there is read back, before anything is sampled with it.
    assert order[5 + 1 :] == [
        "/pause", "/collective_rpc", "/reset_prefix_cache", "/collective_rpc", "/update_weight_version", "/resume"
    ]  # fmt: skip
    engine.close()
    assert not Path(second).exists()


def without(name: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """A server that keeps one tensor as it first was."""
    first: dict[str, Tensor] = {}

    def loads(weights: dict[str, Tensor]) -> dict[str, Tensor]:
        first.setdefault(name, weights[name])
        return {**weights, name: first[name]}

    return loads


@pytest.mark.parametrize("name", ["model.layers.2.self_attn.q_norm.weight", "lm_head.weight"])
def test_a_tensor_that_is_not_taken_over_is_named(fake: FakeVllm, name: str) -> None:
    fake.loads = without(name)
    engine = engine_of(fake)
    changed = load_policy("bundled")
    with torch.no_grad():
        # A millionth of what it was: no log-probability shows it.
        for weight in changed.model.parameters():
            weight.mul_(1.0 + 1e-6)
    with pytest.raises(BrokenRunError, match=f"of 47 tensors .* differ: {re.escape(name)}\\."):
        engine.load_weights(changed.weights(), 1)
    engine.close()


def test_a_server_without_the_reader_is_refused(fake: FakeVllm) -> None:
    fake.loads = lambda _: {}
    with pytest.raises(BrokenRunError, match="it has none of these names"):
        engine_of(fake)


@pytest.mark.parametrize("status", [0, 500])
def test_what_a_server_did_not_answer_is_asked_again(fake: FakeVllm, status: int) -> None:
    said: list[str] = []
    engine = engine_of(fake, said=said)
    fake.before_answer = lambda path, count: status if path == "/inference/v1/generate" and count in (1, 3) else None
    assert ids_of(engine.generate(REQUESTS, SAMPLING)) == expected()
    assert "asked again" in said[1]
    engine.close()


def test_a_server_that_was_started_again_gets_the_weights_again(fake: FakeVllm) -> None:
    engine = engine_of(fake)

    def restart(path: str, count: int) -> None:
        if path == "/inference/v1/generate" and count == 2:
            fake.version = "default"

    fake.before_answer = restart
    assert ids_of(engine.generate(REQUESTS, SAMPLING)) == expected()
    assert len(fake.folders) == 2
    engine.close()


def test_two_servers_and_one_goes(fake: FakeVllm) -> None:
    said: list[str] = []
    with FakeVllm(load_policy("bundled")) as second:
        engine = engine_of(fake, second, said=said)
        engine.generate(REQUESTS, SAMPLING)
        assert len(fake.answered) >= 2
        assert len(second.answered) >= 2
        fake.stop()
        assert ids_of(engine.generate(REQUESTS, SAMPLING)) == expected()
        fake.start()
        engine.load_weights(load_policy("bundled").weights(), 1)
        assert ids_of(engine.generate(REQUESTS, SAMPLING)) == expected()
        assert {one["version"] for one in fake.answered[-2:]} == {fake.version}
        engine.close()


def test_a_server_that_stays_away_ends_the_wait(fake: FakeVllm) -> None:
    engine = engine_of(fake, wait_seconds=0.5)
    fake.stop()
    with pytest.raises(GroupwiseError, match=r"vLLM cannot be used after \d+ s: .* does not answer: Connection"):
        engine.generate(REQUESTS, SAMPLING)
    engine.close()


def test_a_refused_request_is_an_error_and_not_asked_again(fake: FakeVllm) -> None:
    engine = engine_of(fake)
    fake.before_answer = lambda path, _: 400 if path == "/inference/v1/generate" else None
    with pytest.raises(GroupwiseError, match="answers 400"):
        engine.generate(REQUESTS, SAMPLING)
    engine.close()


def test_what_is_not_wanted_any_more_is_aborted(fake: FakeVllm) -> None:
    engine = engine_of(fake, batch_sequences=1)
    stream = engine.stream(REQUESTS, SAMPLING)
    next(stream)
    del stream
    gc.collect()
    assert "/inference/v1/abort_requests" in fake.paths
    assert len(fake.answered) < 5
    engine.close()


@pytest.mark.slow
def test_a_run_whose_server_fails_is_the_undisturbed_run(fake: FakeVllm, tmp_path: Path) -> None:
    options = [f"engine={{type: vllm_server, addresses: ['{fake.address}'], wait_seconds: 20}}"]
    assert train(tmp_path / "whole", *options) is not None
    seen: list[int] = []

    def disturb(_path: str, count: int) -> int | None:
        seen.append(count)
        if len(seen) % 37 == 0:
            fake.version = "default"
        return (0, 503)[len(seen) % 2] if len(seen) % 23 == 0 else None

    fake.before_answer = disturb
    reporter = Quiet()
    assert train(tmp_path / "disturbed", *options, reporter=reporter) is not None
    assert any("asked again" in note for note in reporter.notes)
    for name in ("whole", "disturbed"):
        assert (tmp_path / name / "metrics.jsonl").is_file()
    first, second = ((tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "disturbed"))
    assert first == second


@pytest.mark.parametrize(
    ("address", "key", "message"),
    [
        ("127.0.0.1:8000", "", "is no address such as"),
        ("ftp://127.0.0.1:8000", "", "is no address such as"),
        ("http://8.8.8.8:8000", "key", "is a public address"),
        ("http://10.1.2.3:8000", "", "is not loopback: start the server with --api-key"),
    ],
)
def test_addresses_that_weights_are_not_sent_to(address: str, key: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        checked_address(address, key)


def test_addresses_that_they_are_sent_to() -> None:
    assert checked_address("http://127.0.0.1:8000/", "") == "http://127.0.0.1:8000"
    assert checked_address("http://10.1.2.3:8000", "key") == "http://10.1.2.3:8000"


def test_a_key_that_the_environment_has_not(fake: FakeVllm) -> None:
    with pytest.raises(UsageError, match="the environment has no such variable"):
        engine_of(fake, api_key_variable="GROUPWISE_TEST_KEY")
