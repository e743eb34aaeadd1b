"""How much memory a step takes is known before the first one, and micro-batches are made to fit."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from groupwise.config import TrainConfig
from groupwise.config.compose import compose_train_config
from groupwise.errors import UsageError
from groupwise.memory import fit as memory
from groupwise.memory.fit import USABLE_SHARE, fit_micro_batches
from groupwise.memory.free_memory import free_main_bytes
from groupwise.memory.live_bytes import LiveBytes
from groupwise.memory.needs import Needs, needs_of
from groupwise.memory.pass_memory import PassMemory, Shape, run_pass, worst_rows, worst_shapes
from groupwise.memory.truncated_model import truncated
from groupwise.model.backends.activation_checkpointing import layers_of
from groupwise.model.choose_backend import choose_backend
from groupwise.model.load import Policy, load_policy
from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.score import Scoring, score
from groupwise.model.size import size_of
from groupwise.ranks import Ranks
from groupwise.rollout.engine import SampleRequest, SamplingParams, make_engine
from groupwise.rollout.engine_options import EngineMemory
from groupwise.training import loop, setup
from groupwise.training import run as main
from tests.support import zoo
from tests.support.commands import SMALL
from tests.support.runs import Quiet, assert_same_run, interrupt_at, resume, train
from tests.support.tiny import build, policy_of

ALONE = Ranks()
SIZES: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4, "vocab_size": 500}
UNMEASURED = [*SMALL, "problems.eval_problems=0"]


def config_of(**sections: Any) -> TrainConfig:
    return TrainConfig.model_validate({"sampling": {"max_new_tokens": 60}, **sections})


def fresh(architecture: str = "llama", **sizes: Any) -> Policy:
    model = build(architecture, max_position_embeddings=4096, **{**SIZES, **sizes})
    return policy_of(model, max_context_tokens=4096)


def weight_of(module: nn.Module) -> torch.Tensor:
    return dict(module.named_parameters())["weight"]


def with_free(monkeypatch: pytest.MonkeyPatch, free: int | None) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda *_: free)


# Counting


def test_the_bytes_alive_are_those_of_torch_s_own_allocator() -> None:
    policy, config, shape = fresh(), config_of(), Shape(20, 30, 4)
    run_pass(policy, config, shape, 1024)
    _, timeline = run_pass(policy, config, shape, 1024)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run_pass(policy, config, shape, 1024)
    running, peak = 0, 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            running += event.nbytes()
            peak = max(peak, running)
    gradient = 4 * sum(weight.numel() for weight in policy.model.parameters())
    # Single operations need something for themselves.
    assert max(timeline) == pytest.approx(peak - gradient, rel=0.03)


@pytest.mark.parametrize("architecture", ["llama", "olmo2"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch": {"activation_checkpointing": True}},
        {"batch": {"logits_chunk_tokens": 100}},
        {"entropy": {"bonus": {"type": "fixed", "coefficient": 0.01}}},
        {"sampling": {"replay_mask": True, "top_k": 20, "max_new_tokens": 60}},
        {"model": {"compute_dtype": "bfloat16"}},
    ],
)
def test_parts_of_a_pass_tell_what_it_needs(architecture: str, options: dict[str, Any]) -> None:
    config = config_of(**options)
    policy = replace(fresh(architecture), compute_dtype=getattr(torch, config.model.computes_in))
    measured = PassMemory(policy, config)
    for shape in (Shape(40, 60, 8, 2), Shape(30, 16, 8, 5), Shape(100, 400, 1)):
        _, timeline = run_pass(policy, config, shape, config.batch.logits_chunk_tokens)
        assert 0.97 * max(timeline) < measured.bytes(shape) < 1.3 * max(timeline)


@pytest.mark.parametrize("name", ["Qwen3", "Gemma2", "Qwen3.5", "GPT-2"])
def test_parts_of_a_plain_pass_tell_what_it_needs(name: str) -> None:
    policy, _ = choose_backend(policy_of(zoo.build(name, 500), max_context_tokens=256), "plain", 230)
    measured = PassMemory(policy, config_of())
    for shape in (Shape(40, 60, 1, 16), Shape(100, 130, 1)):
        _, timeline = run_pass(policy, config_of(), shape, 1024)
        assert 0.97 * max(timeline) < measured.bytes(shape) < 1.3 * max(timeline)


def test_a_part_that_is_no_model_is_not_tried_out() -> None:
    """Gemma 4 has an embedding of each token for each of its layers."""
    policy, _ = choose_backend(policy_of(zoo.build("Gemma4", 500), max_context_tokens=256), "plain", 100)
    fitted = fit_micro_batches(config_of(), policy, 40, ALONE)
    assert (fitted.tokens, fitted.needed_bytes) == (fitted.asked_tokens, 0)
    assert "not tried out" in str(fitted)


def test_a_model_of_one_layer_is_measured_whole() -> None:
    policy, config = fresh(num_hidden_layers=1), config_of()
    _, timeline = run_pass(policy, config, Shape(40, 60, 8), 1024)
    assert max(timeline) <= PassMemory(policy, config).bytes(Shape(40, 60, 8)) < 1.3 * max(timeline)


def test_a_truncated_model_is_the_last_layers_on_the_same_weights() -> None:
    """Its hidden states are those of a model that was built so; the original stays as it was."""
    policy = fresh("qwen3")
    small = truncated(policy, 2, 100)
    assert len(layers_of(policy.backbone)) == policy.model.config.num_hidden_layers == 4
    assert small.model.config.num_hidden_layers == 2
    kept, whole = (
        [weight for layer in layers for weight in layer.parameters()]
        for layers in (layers_of(small.backbone), layers_of(policy.backbone)[2:])
    )
    assert all(one is other for one, other in zip(kept, whole, strict=True))
    assert small.head.weight is small.model.get_input_embeddings().weight
    assert torch.equal(weight_of(small.head), weight_of(policy.head)[:100])
    expected = build("qwen3", **{**SIZES, "num_hidden_layers": 2, "vocab_size": 100}, max_position_embeddings=4096)
    expected.load_state_dict(small.model.state_dict())
    ids = torch.arange(20).unsqueeze(0)
    groups = [SequenceGroup(ids[0, :12].numpy(), (ids[0, 12:].numpy(),))]
    logps_N = score(small, pack(groups, torch.device("cpu")), Scoring(1.0, 100)).logps_N
    logps_TV = torch.log_softmax(expected(input_ids=ids).logits[0], dim=-1)
    torch.testing.assert_close(logps_N, logps_TV[11:19].gather(1, ids[0, 12:].unsqueeze(1))[:, 0])


def test_the_worst_shapes_fill_the_budget() -> None:
    for budget in (100, 500, 2048, 10_000):
        shapes = worst_shapes(budget, prompt=40, longest=128, samples=8, most_groups=1000)
        assert [shape.answer for shape in shapes] == [128, 32, 16]
        for shape in shapes:
            assert shape.tokens == pytest.approx(40 + max(budget, shape.answer - 1))
            assert shape.samples <= 8
    (longest, *_) = worst_shapes(10_000, prompt=40, longest=128, samples=8, most_groups=2)
    assert longest.tokens == 2 * (40 + 8 * 127)
    (alone,) = worst_shapes(2048, prompt=40, longest=1, samples=8, most_groups=16)
    assert alone.tokens == 16 * 40


def test_the_worst_rows_fill_the_budget_with_their_prompts() -> None:
    for budget in (500, 2048, 10_000):
        for shape in worst_rows(budget, prompt=40, longest=128, most=1000):
            assert shape.samples == 1
            assert shape.tokens == pytest.approx(budget)
    (longest, *_) = worst_rows(10_000, prompt=40, longest=128, most=2)
    assert longest.tokens == 2 * (40 + 127)
    (alone, *_) = worst_rows(100, prompt=40, longest=128, most=1000)
    assert alone.groups == 1


def test_a_plain_engine_holds_a_prompt_for_each_answer() -> None:
    size, options = size_of(fresh().model), {"sampling": {"max_new_tokens": 50}, "engine": {"batch_sequences": 20}}
    packed, plain = (
        needs_of(config_of(**options, model={"backend": backend}), size, longest_prompt=30).engine
        for backend in ("auto", "plain")
    )
    assert plain.cache - packed.cache == 4 * size.cache_values_per_token * 20 * 30


def test_the_counted_bytes_by_hand() -> None:
    size = size_of(fresh().model)
    config = config_of(
        batch={"prompts_per_step": 3, "samples_per_prompt": 4},
        active_sampling={"max_prompts_per_step_factor": 2.0},
        sampling={"max_new_tokens": 50},
        engine={"batch_sequences": 20},
    )
    weights = 500 * 64 * 2 + 4 * (64 * 64 * 2 + 64 * 16 * 2 + 3 * 64 * 160 + 2 * 64) + 64
    # 20 answers of 5 problems; a key and a value of 16 numbers in 4 layers, and in a fifth while the cache grows.
    cache = 2 * 16 * 4 * (5 * 20 * 50 + 4 * 5 * 30)
    logits = 20 * 500 * 4 * 4
    layer = (4 * 64 + 3 * 160) * 4 * 5 * 30
    needs = needs_of(config, size, longest_prompt=30)
    assert (needs.weights, needs.moments, needs.gradient) == (4 * weights, 8 * weights, 4 * weights)
    assert needs.engine.total == cache + logits + layer
    assert (needs.reference, needs.engine.weights) == (0, 0)
    model, kl = config.model.model_copy(update={"compute_dtype": "bfloat16"}), {"coefficient": 0.1}
    reduced = needs_of(config_of(**config.model_dump() | {"model": model.model_dump(), "kl": kl}), size, 30)
    assert (reduced.weights, reduced.moments, reduced.gradient) == (4 * weights, 8 * weights, 4 * weights)
    assert reduced.engine.total == 2 * weights + cache // 2 + logits + layer // 2
    assert (reduced.reference, reduced.engine.weights) == (4 * weights, 2 * weights)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sampling_takes_no_more_than_is_counted(dtype: str) -> None:
    policy = replace(fresh(), compute_dtype=getattr(torch, dtype))
    config = config_of(
        model={"compute_dtype": dtype},
        batch={"prompts_per_step": 4, "samples_per_prompt": 6},
        active_sampling={"refill": False},
        sampling={"max_new_tokens": 80},
    )
    requests = [SampleRequest(np.full(30, index), tuple(range(6))) for index in range(4)]
    alive = LiveBytes()
    with alive:
        engine = make_engine(config, policy)
        engine.generate(requests, SamplingParams(1.0, 80, stop_ids=(1,)))
    counted = needs_of(config, size_of(policy.model), longest_prompt=30).engine.total
    assert 0.4 * counted < max(alive.timeline) < counted


def test_a_step_needs_the_moments_and_the_larger_of_sampling_and_training() -> None:
    needs = Needs(weights=9, reference=9, moments=100, gradient=50, engine=EngineMemory(20, 40, 10))
    assert [needs.peak(pass_bytes) for pass_bytes in (10, 20, 30)] == [170, 170, 180]
    assert replace(needs, copy=300).peak(30) == 480


# What is free


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = "MemTotal:       24000 kB\nMemFree:         9000 kB\nMemAvailable:   20000 kB\n"


def test_free_memory_is_what_the_narrowest_limit_leaves(tmp_path: Path) -> None:
    proc = write(tmp_path / "proc", meminfo=MEMINFO, self__cgroup="0::/a/b\n")
    groups = tmp_path / "cgroup"
    assert free_main_bytes(proc, groups) == 20000 * 1024
    write(groups / "a" / "b", memory_DOT_max="max\n", memory_DOT_current="500\n")
    assert free_main_bytes(proc, groups) == 20000 * 1024
    stat = "anon 300\ninactive_file 40\nactive_file 7\n"
    write(groups / "a", memory_DOT_max="9000\n", memory_DOT_current="1000\n", memory_DOT_stat=stat)
    assert free_main_bytes(proc, groups) == 9000 - 1000 + 40
    write(groups / "a" / "b", memory_DOT_max="700\n")
    assert free_main_bytes(proc, groups) == 200


def test_control_groups_of_version_1_and_of_a_container(tmp_path: Path) -> None:
    cgroup = "12:cpu,cpuacct:/docker/x\n5:memory:/docker/x\n"
    proc = write(tmp_path / "proc", meminfo=MEMINFO, self__cgroup=cgroup)
    groups = tmp_path / "cgroup"
    root = groups / "memory"
    write(root, memory_DOT_limit_in_bytes="9223372036854771712\n", memory_DOT_usage_in_bytes="10\n")
    assert free_main_bytes(proc, groups) == 20000 * 1024
    # The path is that of the host; its end is mounted as the root.
    write(root, memory_DOT_limit_in_bytes="3000\n", memory_DOT_usage_in_bytes="1000\n")
    write(root, memory_DOT_stat="total_inactive_file 5\n")
    assert free_main_bytes(proc, groups) == 2005


LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max data size             {data} unlimited            bytes
Max address space         {space} unlimited            bytes
"""
STATUS = "Name:\tpython\nVmSize:\t    2000 kB\nVmData:\t     500 kB\n"


@pytest.mark.parametrize(
    ("data", "space", "left"),
    [
        ("unlimited", "unlimited", 20000 * 1024),
        ("unlimited", 3000 * 1024, 1000 * 1024),
        (700 * 1024, 3000 * 1024, 200 * 1024),
        ("unlimited", 1000 * 1024, 0),
    ],
)
def test_what_ulimit_leaves(tmp_path: Path, data: Any, space: Any, left: int) -> None:
    limits = LIMITS.format(data=data, space=space)
    proc = write(tmp_path / "proc", meminfo=MEMINFO, self__limits=limits, self__status=STATUS)
    assert free_main_bytes(proc, tmp_path / "cgroup") == left


def test_a_limit_of_this_process_is_seen() -> None:
    """`ulimit -v`, in a process of its own."""
    program = (
        "import resource; from pathlib import Path; from groupwise.memory.free_memory import free_main_bytes\n"
        "size = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + 2**27, -1))\n"
        "print(free_main_bytes(Path('/proc'), Path('/sys/fs/cgroup')))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(ended.stdout) == pytest.approx(2**27, rel=0.05)


def test_a_system_that_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert free_main_bytes(tmp_path, tmp_path) is None
    with_free(monkeypatch, None)
    assert fit_micro_batches(config_of(), fresh(), 40, ALONE).tokens == 1024


# The choice


def test_the_largest_half_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(sampling={"max_new_tokens": 60}, engine={"batch_sequences": 8})
    with_free(monkeypatch, 2**40)
    needed = {}
    for tokens in (64, 128, 256, 512, 1024):
        fitted = fit_micro_batches(config, fresh(), 40, ALONE, tokens)
        needed[tokens] = fitted.needed_bytes
        assert fitted.tokens == fitted.asked_tokens == tokens
    assert sorted(needed.values()) == list(needed.values())
    for tokens, more in ((1024, None), (512, 1024), (128, 256), (64, 128)):
        free = math.ceil(needed[tokens] / USABLE_SHARE) + 1 if more is None else int((needed[more] - 1) / USABLE_SHARE)
        with_free(monkeypatch, free)
        fitted = fit_micro_batches(config, fresh(), 40, ALONE)
        assert (fitted.tokens, fitted.asked_bytes) == (tokens, needed[1024])
        assert needed[fitted.tokens] <= USABLE_SHARE * free
        if more is not None:
            assert str(fitted).startswith(f"micro-batches of {tokens} tokens: 1024 would need ")
            assert str(fitted).endswith("that are free")


def test_one_answer_that_does_not_fit_is_refused_with_what_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(sampling={"max_new_tokens": 60}, engine={"batch_sequences": 1})
    with_free(monkeypatch, 2**40)
    alone = fit_micro_batches(config, fresh(), 40, ALONE, 32).needed_bytes
    with_free(monkeypatch, int(alone / USABLE_SHARE) + 1)
    assert fit_micro_batches(config, fresh(), 40, ALONE).tokens == 32
    with_free(monkeypatch, int(alone / USABLE_SHARE) - 1)
    with pytest.raises(UsageError, match="not even one answer fits") as caught:
        fit_micro_batches(config, fresh(), 40, ALONE)
    for way in ("60 tokens", "prompt, of 40", "batch.activation_checkpointing=true", "max_new_tokens", "bfloat16"):
        assert way in str(caught.value)


def test_sampling_that_does_not_fit_is_refused_by_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(sampling={"max_new_tokens": 3000}, engine={"batch_sequences": 10_000})
    needs = needs_of(config, size_of(fresh().model), 40)
    with_free(monkeypatch, needs.moments + needs.engine.total)
    with pytest.raises(UsageError, match=r"lower engine\.batch_sequences or sampling"):
        fit_micro_batches(config, fresh(), 40, ALONE)


class OfTwo(Ranks):
    """A ranks whose other rank has room for 512 tokens."""

    def gather(self, value: Any, what: str = "") -> list[Any]:  # noqa: ARG002
        return [value, 512]


def test_all_ranks_take_what_the_smallest_can(monkeypatch: pytest.MonkeyPatch) -> None:
    with_free(monkeypatch, 2**40)
    fitted = fit_micro_batches(config_of(), fresh(), 40, OfTwo(0, 2))
    assert (fitted.tokens, fitted.asked_tokens) == (512, 1024)


def test_a_worst_case_that_runs_out_of_memory_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, config = fresh(), config_of()
    measured = PassMemory(policy, config)
    needs = needs_of(config, size_of(policy.model), 40)
    ran: list[Shape] = []

    def limited(policy: Policy, config: TrainConfig, shape: Shape, chunk_tokens: int) -> Any:
        ran.append(shape)
        if shape.tokens > 400:
            raise torch.OutOfMemoryError
        return run_pass(policy, config, shape, chunk_tokens)

    monkeypatch.setattr(memory, "run_pass", limited)
    fits = [
        memory.worst_case_runs(policy, config, needs, measured, worst_shapes(budget, 40, 60, 8, 100))
        for budget in (1024, 512, 256)
    ]
    assert [round(shape.tokens) for shape in ran] == [1064, 552, 296]
    assert fits == [False, False, True]
    assert all(weight.grad is None for weight in policy.model.parameters())


@pytest.mark.slow
def test_the_copy_that_samples_is_there_while_sampling_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines: list[Any] = []
    held: list[tuple[str, int]] = []

    def made(config: TrainConfig, policy: Policy, *_: object, **__: object) -> Any:
        engines.append(make_engine(config, policy))
        return engines[-1]

    def observe(module: Any, name: str) -> None:
        function = getattr(module, name)

        def observed(*arguments: Any) -> Any:
            copies = {id(weight): weight for engine in engines for weight in engine._model.parameters()}
            held.append((name, sum(weight.untyped_storage().nbytes() for weight in copies.values())))
            return function(*arguments)

        monkeypatch.setattr(module, name, observed)

    for module in (setup, main):
        monkeypatch.setattr(module, "make_engine", made)
    for module, name in ((setup, "fit_micro_batches"), (loop, "collect"), (loop, "update"), (main, "measure_all")):
        observe(module, name)
    reduced = ["model.compute_dtype=bfloat16", "objective.old_logps=trainer", "run.steps=2", "problems.eval_problems=2"]
    train(tmp_path / "run", *reduced)
    model = load_policy("bundled").model
    copy = 2 * sum(weight.numel() for weight in model.parameters())
    steps = [("collect", copy), ("update", 0)] * 2
    # Last the trained weights, and then those from before training, whose engine is another.
    assert held == [("fit_micro_batches", 0), *steps, ("measure_all", copy), ("measure_all", copy)]


# What it leaves behind


def test_nothing_is_left_behind() -> None:
    policy, config = fresh(), config_of(entropy={"bonus": {"type": "fixed", "coefficient": 0.01}})
    before = {name: tensor.clone() for name, tensor in policy.model.state_dict().items()}
    random = torch.get_rng_state()
    fit_micro_batches(config, policy, 40, ALONE)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(weight.grad is None for weight in policy.model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in policy.model.state_dict().items())
    assert not policy.model.training


@pytest.mark.slow
def test_a_run_is_the_same_with_and_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path / "with")

    def unmeasured(config: TrainConfig, *_: Any) -> Any:
        tokens = config.batch.micro_batch_tokens
        return memory.MicroBatches(tokens, tokens, 0, 0, None, Needs(0, 0, 0, 0, EngineMemory(0, 0, 0)))

    monkeypatch.setattr(setup, "fit_micro_batches", unmeasured)
    train(tmp_path / "without")
    assert_same_run(tmp_path / "with", tmp_path / "without")


@pytest.mark.slow
def test_a_resumed_run_keeps_the_size_that_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a machine where more would fit; another division rounds otherwise."""
    options = [*UNMEASURED, "batch.micro_batch_tokens=4096", "engine.batch_sequences=4"]

    def narrow(
        config: TrainConfig,
        policy: Policy,
        longest: int,
        ranks: Ranks,
        tokens: int | None = None,
        grows: bool = False,
        divided: bool = False,
    ) -> Any:
        assert not grows
        assert not divided
        with_free(monkeypatch, 2**40)
        with_free(
            monkeypatch, int(fit_micro_batches(config, policy, longest, ranks, 80).needed_bytes / USABLE_SHARE) + 1
        )
        return fit_micro_batches(config, policy, longest, ranks, tokens)

    monkeypatch.setattr(setup, "fit_micro_batches", narrow)
    whole, parted, noted = tmp_path / "whole", tmp_path / "parted", Quiet()
    train(whole, options=options, reporter=noted)
    fitted = json.loads((whole / "context.json").read_text())["micro_batch_tokens"]
    assert fitted == 64
    assert any(f"micro-batches of {fitted} tokens: 4096 would need" in note for note in noted.notes)
    train(parted, options=options, reporter=Quiet(interrupt_at(2)))
    with_free(monkeypatch, 2**40)
    monkeypatch.setattr(setup, "fit_micro_batches", fit_micro_batches)
    noted = Quiet()
    resume(parted, reporter=noted)
    assert any(f"micro-batches of {fitted} tokens; a step needs" in note for note in noted.notes)
    assert_same_run(parted, whole)
    assert compose_train_config([str(parted / "config.yaml")]).batch.micro_batch_tokens == 4096
