"""vLLM itself, in process and as a server: `make test-vllm`, in an environment that has it."""

import os
import random
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from groupwise.errors import BrokenRunError
from groupwise.model.load import Policy, load_policy
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.engine_check import check_engine
from groupwise.rollout.engine_options import Vllm
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.rollout.vllm import inprocess, server
from groupwise.rollout.vllm.weights import HEAD
from tests.support.runs import Quiet, metrics, train
from tests.support.tiny import plain_logits

pytestmark = [pytest.mark.slow, pytest.mark.vllm]
pytest.importorskip("vllm")

PROMPTS = [np.arange(5, 12), np.arange(20, 23)]
SAMPLING = SamplingParams(temperature=1.0, max_new_tokens=24, stop_ids=(2,))
OPTIONS = ["engine.cache_gib=1.0", "problems.eval_problems=0"]


def small_steps(policy: Policy, factor: float = 1.05) -> Policy:
    """The same weights, each moved a little."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.mul_(1.0 + (factor - 1.0) * torch.rand_like(weight))
    return policy


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy("bundled")


@pytest.fixture(scope="module")
def engine(policy: Policy) -> Iterator[inprocess.VllmEngine]:
    made = inprocess.VllmEngine(policy, Vllm(cache_gib=1.0, batch_sequences=32), print)
    yield made
    made.close()


@pytest.fixture
def fresh(engine: inprocess.VllmEngine, policy: Policy) -> inprocess.VllmEngine:
    """The engine with the policy's own weights."""
    engine.load_weights(policy.weights(), 0)
    return engine


def requests(*seeds: int) -> list[SampleRequest]:
    return [SampleRequest(prompt, seeds) for prompt in PROMPTS]


def gap(engine: Any, policy: Policy) -> float:
    return check_engine(engine, policy, PROMPTS[0], 64, SAMPLING, 0).mean


def test_log_probabilities_are_those_of_the_trainer(fresh: inprocess.VllmEngine, policy: Policy) -> None:
    assert check_engine(fresh, policy, PROMPTS[0], 200, SAMPLING, 0).largest < 1e-4


def test_a_seed_decides_whatever_else_is_sampled(fresh: inprocess.VllmEngine) -> None:
    together = fresh.generate(requests(1, 2, 3), SAMPLING)
    for index, prompt in enumerate(PROMPTS):
        for sample, seed in enumerate((1, 2, 3)):
            ((alone,),) = fresh.generate([SampleRequest(prompt, (seed,))], SAMPLING)
            assert alone.ids.tolist() == together[index][sample].ids.tolist()
    backwards = fresh.generate([SampleRequest(prompt, (3, 2, 1)) for prompt in PROMPTS[::-1]], SAMPLING)
    assert [[c.ids.tolist() for c in own[::-1]] for own in backwards[::-1]] == [
        [c.ids.tolist() for c in own] for own in together
    ]


def test_greedy_is_that_of_the_trainer(fresh: inprocess.VllmEngine, policy: Policy) -> None:
    greedy = replace(SAMPLING, temperature=0.0)
    own = InProcessEngine(policy, 8).generate(requests(1), greedy)
    assert [one[0].ids.tolist() for one in fresh.generate(requests(1), greedy)] == [one[0].ids.tolist() for one in own]


def test_stops(fresh: inprocess.VllmEngine, policy: Policy) -> None:
    unstopped = replace(SAMPLING, stop_ids=())
    (whole, *_), _ = fresh.generate(requests(4, 5), unstopped)
    assert (len(whole.ids), whole.finish_reason) == (24, "length")
    at = next(at for at in range(3, 24) if whole.ids[at] not in whole.ids[:at])
    (by_id, *_), _ = fresh.generate(requests(4, 5), replace(unstopped, stop_ids=(int(whole.ids[at]),)))
    assert (by_id.ids.tolist(), by_id.finish_reason) == (whole.ids[: at + 1].tolist(), "stop")
    text = policy.tokenizer.decode(whole.ids[:6])[-2:]
    (by_text, *_), _ = fresh.generate(requests(4, 5), replace(unstopped, stop=(text,)))
    assert text in policy.tokenizer.decode(by_text.ids)
    assert text not in policy.tokenizer.decode(by_text.ids[:-1])
    assert by_text.finish_reason == "stop"


@pytest.mark.parametrize(("top_p", "min_p"), [(1.0, 0.0), (0.9, 0.0), (1.0, 0.1)])
def test_sets_that_were_sampled_from(fresh: inprocess.VllmEngine, top_p: float, min_p: float) -> None:
    folder = str(resources.files("groupwise") / "bundled" / "model")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    filtered = SamplingParams(0.7, 24, (2,), top_k=20, top_p=top_p, min_p=min_p, record_kept=True)
    for prompt, own in zip(PROMPTS, fresh.generate(requests(7, 8), filtered), strict=True):
        for one in own:
            assert one.kept is not None
            # What this engine's own filter keeps behind the same tokens.
            with torch.no_grad():
                logits_TV = plain_logits(model, prompt, one.ids) / 0.7
            sets = np.split(one.kept.ids, np.cumsum(one.kept.counts_T)[:-1])
            for logits_V, kept in zip(logits_TV, sets, strict=True):
                best = logits_V.topk(20)
                probabilities = best.values.softmax(0)
                before = probabilities.cumsum(0) - probabilities
                expected = set(best.indices[(before < top_p) | (top_p == 1.0)].tolist())
                expected &= set(best.indices[probabilities >= min_p * probabilities[0]].tolist())
                assert set(kept.tolist()) == expected


def test_new_weights_are_sampled_from(fresh: inprocess.VllmEngine) -> None:
    moved = small_steps(load_policy("bundled"))
    fresh.load_weights(moved.weights(), 7)
    assert gap(fresh, moved) < 1e-5
    assert {one.version for own in fresh.generate(requests(1), SAMPLING) for one in own} == {7}


def test_an_abandoned_call_leaves_nothing_running(fresh: inprocess.VllmEngine) -> None:
    stream = fresh.stream(requests(*range(20)), SAMPLING)
    next(stream)
    del stream
    ((one,), _) = fresh.generate(requests(1), SAMPLING)
    ((other,), _) = fresh.generate(requests(1), SAMPLING)
    assert one.ids.tolist() == other.ids.tolist()


# What goes wrong between trainer and vLLM, and which of both checks sees it


@pytest.mark.parametrize(
    "left_out", [HEAD, "model.layers.1.self_attn.q_norm.weight", "model.layers.3.mlp.up_proj.weight"]
)
def test_a_tensor_that_is_left_out_is_read_back(
    fresh: inprocess.VllmEngine, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    usual = fresh._reload
    monkeypatch.setattr(fresh, "_reload", lambda given: usual({n: w for n, w in given.items() if n != left_out}))
    moved = small_steps(load_policy("bundled"))
    with pytest.raises(BrokenRunError, match=left_out):
        fresh.load_weights(moved.weights(), 1)


def test_a_cache_that_is_not_emptied_shows_in_the_log_probabilities(
    fresh: inprocess.VllmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights are right: what is read back cannot show it."""
    long = [SampleRequest(np.resize(PROMPTS[0], 200), (1,))]
    fresh.generate(long, SAMPLING)
    monkeypatch.setattr(fresh._llm, "reset_prefix_cache", lambda: True)
    moved = small_steps(load_policy("bundled"), factor=1.3)
    fresh.load_weights(moved.weights(), 1)
    with pytest.raises(Exception, match="differ from the trainer's"):
        check_engine(fresh, moved, long[0].prompt_ids, 230, SAMPLING, 0)


def test_in_bfloat16_only_what_is_read_back_shows_that_nothing_was_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = load_policy("bundled", "bfloat16")
    engine = inprocess.VllmEngine(policy, Vllm(cache_gib=1.0, batch_sequences=32), print)
    before = gap(engine, policy)
    moved = small_steps(load_policy("bundled", "bfloat16"), factor=1.0 + 1e-3)
    # One that never hears of new weights.
    assert gap(engine, moved) < 2 * before
    monkeypatch.setattr(engine, "_reload", lambda _: None)
    with pytest.raises(BrokenRunError, match="differ: "):
        engine.load_weights(moved.weights(), 1)
    engine.close()


# Runs


@pytest.mark.parametrize("kind", ["vllm", "vllm_server"])
def test_a_run(kind: str, tmp_path: Path) -> None:
    options = ["demo", "run.steps=20", f"engine={kind}", *OPTIONS, "run.threads=1"]
    assert train(tmp_path / "run", options=options) is not None
    lines = metrics(tmp_path / "run")
    assert len(lines) == 20
    assert max(line["engine/logp_gap_max"] for line in lines) <= 1e-4
    rewards = [line["reward/total/mean"] for line in lines]
    assert np.mean(rewards[-5:]) > np.mean(rewards[:5]) + 0.1


def test_a_server_that_is_killed_in_the_middle_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["demo", "run.steps=6", "engine=vllm_server", *OPTIONS, "run.threads=1"]
    made: list[server.VllmServerEngine] = []
    usual = server.VllmServerEngine.__init__

    def noted(self: server.VllmServerEngine, *arguments: Any) -> None:
        made.append(self)
        usual(self, *arguments)

    monkeypatch.setattr(server.VllmServerEngine, "__init__", noted)
    assert train(tmp_path / "whole", options=options) is not None

    def kill(step: int) -> None:
        if step == 2:
            running = made[-1]._process
            assert running is not None
            assert running._process is not None
            pid, wait = running._process.pid, random.Random(5).uniform(0.0, 0.5)
            threading.Timer(wait, os.killpg, (pid, signal.SIGKILL)).start()

    reporter = Quiet(kill)
    assert train(tmp_path / "killed", options=options, reporter=reporter) is not None
    assert any("starts again" in note for note in reporter.notes)
    for one, other in zip(metrics(tmp_path / "whole"), metrics(tmp_path / "killed"), strict=True):
        assert one["tokens/sampled"] == other["tokens/sampled"]
        assert one["reward/total/mean"] == pytest.approx(other["reward/total/mean"], abs=1e-9)
