"""Adapters: what they compute, what is trained, kept, saved and read, against merged models and against peft itself."""

import copy
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from groupwise.config import TrainConfig
from groupwise.errors import DataError, UsageError
from groupwise.memory.pass_memory import Shape, run_pass
from groupwise.model.adapter_options import AdapterOption, Lora, SavedAdapter
from groupwise.model.adapters import adapted_layers, adapter_weights, merged_weight
from groupwise.model.load import Policy, load_policy, load_tokenizer
from groupwise.model.lora import save_adapters, with_adapters
from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.reference import fingerprint_weights, frozen_copy, own_weights, refresh
from groupwise.model.save import save_model
from groupwise.model.score import Scoring, backend_of, score
from groupwise.model.size import read_size, size_of
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.inprocess import InProcessEngine
from tests.support.tiny import build, packed_scores, plain_logits, policy_of, ragged_groups, relative_difference

GROUPS = ragged_groups(0, [(9, (5, 9, 3)), (4, (7, 1))])
SCORING = Scoring(1.0, 64, in_place=True)
VARIANTS = {
    "lora": Lora(rank=4, alpha=8),
    "attention": Lora(rank=2, alpha=3, targets=["q_proj", "v_proj"]),
    "rslora": Lora(rank=4, alpha=8, rank_stabilised=True),
    "dora": Lora(rank=4, alpha=8, dora=True),
}


def moved(policy: Policy, seed: int = 1) -> Policy:
    """With adapters that change something."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in adapter_weights(policy.model).items():
        if "lora_A" not in name:
            weight.data += torch.randn(weight.shape, generator=generator, dtype=weight.dtype) * 0.05
    return policy


def adapted(options: AdapterOption, architecture: str = "qwen3", dtype: torch.dtype = torch.float32) -> Policy:
    policy = policy_of(build(architecture).to(dtype))
    return moved(with_adapters(policy, options, seed=3))


def by_hand(policy: Policy, options: Lora) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Every adapted layer's merged weights, and the lengths of its rows before DoRA rescales them."""
    scale = options.alpha / (options.rank**0.5 if options.rank_stabilised else options.rank)
    merged, lengths = {}, {}
    for name, layer in adapted_layers(policy.model).items():
        low, high = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        merged[name] = (layer.base_layer.weight + scale * high @ low).detach()
        lengths[name] = merged[name].square().sum(dim=1).sqrt()
        if options.dora:
            merged[name] *= (layer.lora_magnitude_vector["default"].weight.detach() / lengths[name]).unsqueeze(1)
    return merged, lengths


def plain_model(policy: Policy, merged: dict[str, Tensor], architecture: str) -> Policy:
    """The same model without adapters, on the merged weights."""
    model = build(architecture).to(next(iter(merged.values())).dtype)
    for name, weight in merged.items():
        model.get_submodule(name).weight.data = weight
    return replace(policy_of(model), backend=policy.backend)


# What they compute


@pytest.mark.parametrize("architecture", ["qwen3", "llama", "olmo2"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_and_gradients_are_those_of_the_merged_model(variant: str, architecture: str) -> None:
    """d/dB of W + s·B·A is s·dW·Aᵀ, d/dA is s·Bᵀ·dW; DoRA takes the length of rows as a constant (its section 4.3)."""
    options = VARIANTS[variant]
    for dtype, nats, relative in ((torch.float32, 1e-5, 1e-5), (torch.float64, 1e-12, 1e-10)):
        policy = adapted(options, architecture, dtype)
        merged, lengths = by_hand(policy, options)
        whole = plain_model(policy, merged, architecture)
        assert type(backend_of(policy)) is type(backend_of(whole))
        ours, theirs = (score(one, pack(GROUPS, one.device), SCORING).logps_N for one in (policy, whole))
        assert float((ours - theirs).detach().abs().max()) <= nats
        ours.square().sum().backward()
        theirs.square().sum().backward()
        scale = options.alpha / (options.rank**0.5 if options.rank_stabilised else options.rank)
        expected: dict[str, Tensor] = {}
        for name, layer in adapted_layers(policy.model).items():
            low, high = (part["default"].weight.detach() for part in (layer.lora_A, layer.lora_B))
            slope = whole.model.get_submodule(name).weight.grad
            assert isinstance(slope, Tensor)
            if options.dora:
                size = layer.lora_magnitude_vector["default"].weight.detach()
                expected[f"{name}.m"] = (slope * merged[name]).sum(dim=1) / size
                slope = slope * (size / lengths[name]).unsqueeze(1)
            expected[f"{name}.A"], expected[f"{name}.B"] = scale * high.T @ slope, scale * slope @ low.T
        kinds = {"lora_A": "A", "lora_B": "B", "lora_magnitude_vector": "m"}
        found = {}
        for name, weight in policy.trainable():
            layer_name, _, kind = name.removesuffix(".default.weight").rpartition(".")
            assert weight.grad is not None
            found[f"{layer_name}.{kinds[kind]}"] = weight.grad
        assert relative_difference(found, expected) <= relative
        assert all(weight.grad is None for name, weight in policy.model.named_parameters() if "lora_" not in name)


def scored(dtype: torch.dtype, by_peft: bool) -> tuple[Tensor, dict[str, Tensor]]:
    """Log-probabilities and gradients; a hook makes a layer be called as it is."""
    policy = replace(moved(with_adapters(load_policy("bundled"), Lora(rank=4), seed=0)), compute_dtype=dtype)
    for layer in adapted_layers(policy.model).values():
        if by_peft:
            layer.register_forward_hook(lambda *_: None)
    logps_N = score(policy, pack(GROUPS, policy.device), SCORING).logps_N
    logps_N.sum().backward()
    return logps_N.detach(), {name: w.grad for name, w in policy.trainable() if w.grad is not None}


def test_layers_computed_here_are_those_of_peft() -> None:
    """In bfloat16 they are no further from float32 than those of peft are."""
    exact_N, exact = scored(torch.float32, by_peft=True)
    ours_N, ours = scored(torch.float32, by_peft=False)
    assert float((ours_N - exact_N).abs().max()) <= 1e-5
    assert relative_difference(ours, exact) <= 1e-5
    rounded = [scored(torch.bfloat16, by_peft) for by_peft in (False, True)]
    away = [float((logps_N - exact_N).abs().mean()) for logps_N, _ in rounded]
    assert away[0] <= 1.2 * away[1]
    slopes = [relative_difference(gradients, exact) for _, gradients in rounded]
    assert slopes[0] <= 1.2 * slopes[1]


def test_a_pass_keeps_little() -> None:
    """No copies of frozen weights, and of each layer the input once: peft's own pass keeps several times as much."""
    config = TrainConfig.model_validate({"model": {"compute_dtype": "bfloat16"}})
    needed = []
    for hooked in (False, True):
        policy = replace(
            with_adapters(policy_of(build("llama", hidden_size=256)), Lora(), 0), compute_dtype=torch.bfloat16
        )
        for layer in adapted_layers(policy.model).values():
            if hooked:
                layer.register_forward_hook(lambda *_: None)
        needed.append(run_pass(policy, config, Shape(8, 12, 4), 64)[0])
    assert needed[0] < 0.7 * needed[1]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_plain_back_end_sees_them_too(variant: str) -> None:
    policy = replace(adapted(VARIANTS[variant]), backend="plain")
    policy.model.set_attn_implementation("eager")
    merged, _ = by_hand(policy, VARIANTS[variant])
    whole = plain_model(policy, merged, "qwen3").model
    whole.set_attn_implementation("eager")
    ours_N, _ = packed_scores(policy, GROUPS, 1.0)
    theirs = [
        torch.log_softmax(plain_logits(whole, group.prompt_ids, ids), -1)[range(len(ids)), torch.from_numpy(ids)]
        for group in GROUPS
        for ids in group.completion_ids
    ]
    assert float((ours_N - torch.cat(theirs)).detach().abs().max()) <= 1e-5


@pytest.mark.parametrize("variant", VARIANTS)
def test_merged_weights_are_those_by_hand_and_of_peft(variant: str) -> None:
    policy = adapted(VARIANTS[variant])
    merged, _ = by_hand(policy, VARIANTS[variant])
    weights = dict(policy.weights())
    assert list(weights) == [name for name, _ in build("qwen3").named_parameters()]
    for name, layer in adapted_layers(policy.model).items():
        assert torch.allclose(weights[f"{name}.weight"], merged[name], rtol=0, atol=1e-6)
        theirs = copy.deepcopy(layer)
        theirs.merge()
        assert torch.allclose(theirs.base_layer.weight, merged_weight(layer), rtol=0, atol=1e-6)


def test_training_is_that_of_peft() -> None:
    """Three steps of AdamW through peft's own model and the model's own pass."""
    options = Lora(rank=4, alpha=8)
    policy, theirs = adapted(options), build("qwen3")
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    wrapped = peft.get_peft_model(theirs, config)
    own = dict(policy.model.named_parameters())
    for name, weight in wrapped.named_parameters():
        weight.data.copy_(own[name.removeprefix("base_model.model.")].data)
    sides: list[list[nn.Parameter]] = [
        [weight for _, weight in policy.trainable()],
        [weight for weight in wrapped.parameters() if weight.requires_grad],
    ]
    optimizers = [torch.optim.AdamW(weights, lr=1e-2, weight_decay=0.0) for weights in sides]
    for _ in range(3):
        ours = -score(policy, pack(GROUPS, policy.device), SCORING).logps_N.sum()
        its = torch.stack(
            [
                torch.log_softmax(plain_logits(wrapped, group.prompt_ids, ids), -1)[i, int(token)]
                for group in GROUPS
                for ids in group.completion_ids
                for i, token in enumerate(ids)
            ]
        )
        for optimizer, loss in zip(optimizers, (ours, -its.sum()), strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for one, other in zip(*sides, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=2e-5)


# How they begin


def test_the_first_policy_is_the_model_itself() -> None:
    model = build("qwen3")
    base, _ = packed_scores(policy_of(model), GROUPS, 0.7)
    for options in (Lora(), Lora(rank=3, init="gaussian"), Lora(rank_stabilised=True)):
        policy = with_adapters(policy_of(model), options, seed=0)
        assert torch.equal(packed_scores(policy, GROUPS, 0.7)[0], base)
    dora = with_adapters(policy_of(model), Lora(dora=True), seed=0)
    assert float((packed_scores(dora, GROUPS, 0.7)[0] - base).detach().abs().max()) <= 1e-5


def test_they_are_seeded_and_nobody_s_random_numbers_are_used_up() -> None:
    models = [build("qwen3") for _ in range(3)]
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    made = [with_adapters(policy_of(model), Lora(rank=4), seed) for model, seed in zip(models, (1, 1, 2), strict=True)]
    assert torch.equal(torch.rand(3), expected)
    one, same, other = (adapter_weights(policy.model) for policy in made)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("init", ["kaiming", "gaussian"])
def test_how_a_is_drawn(init: Any) -> None:
    policy = with_adapters(load_policy("bundled"), Lora(rank=8, init=init), seed=0)
    for layer in adapted_layers(policy.model).values():
        low, bound = layer.lora_A["default"].weight, layer.in_features**-0.5
        expected = bound / 3**0.5 if init == "kaiming" else 1 / 8
        assert float(low.std()) == pytest.approx(expected, rel=0.1)
        assert (float(low.abs().max()) <= bound) == (init == "kaiming")
        assert not layer.lora_B["default"].weight.any()


def test_only_adapters_are_trained() -> None:
    policy = with_adapters(load_policy("bundled"), Lora(rank=4), seed=0)
    names = [name for name, _ in policy.trainable()]
    assert len(names) == 2 * 7 * 4
    assert all("lora_" in name for name in names)
    assert {weight.dtype for _, weight in policy.trainable()} == {torch.float32}


# The reference


def test_the_reference_is_the_same_model_without_them() -> None:
    model = build("qwen3")
    base, _ = packed_scores(policy_of(model), GROUPS, 1.0)
    for options in (Lora(rank=4), Lora(rank=4, dora=True)):
        policy = with_adapters(policy_of(model), options, seed=0)
        reference = frozen_copy(policy)
        begun = fingerprint_weights(policy)
        moved(policy)
        assert reference.model is policy.model
        assert sum(w.numel() for w in own_weights(reference).values()) == sum(w.numel() for _, w in policy.trainable())
        scored, _ = packed_scores(reference, GROUPS, 1.0)
        assert float((scored - base).abs().max()) <= (1e-5 if options.dora else 0.0)
        assert not torch.allclose(packed_scores(policy, GROUPS, 1.0)[0], base, atol=1e-3)
        assert fingerprint_weights(reference) == begun != fingerprint_weights(policy)
        assert all(weight.requires_grad for weight in adapter_weights(policy.model).values())


def test_a_reference_that_moves_is_a_copy_of_the_adapters() -> None:
    policy = with_adapters(policy_of(build("qwen3")), Lora(rank=4), seed=0)
    reference = frozen_copy(policy)
    then, _ = packed_scores(moved(policy), GROUPS, 1.0)
    refresh(reference, policy)
    moved(policy, seed=2)
    assert torch.equal(packed_scores(reference, GROUPS, 1.0)[0], then)
    assert not torch.equal(packed_scores(policy, GROUPS, 1.0)[0], then)


# Sampling


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_engine_samples_from_the_merged_model(variant: str) -> None:
    policy = moved(with_adapters(load_policy("bundled"), VARIANTS[variant], seed=0))
    engine = InProcessEngine(policy, 8)
    base = {weight.data_ptr() for name, weight in policy.model.named_parameters() if "lora_" not in name}
    shared = [name for name, w in engine._model.named_parameters() if w.data_ptr() in base]
    assert "model.embed_tokens.weight" in shared
    assert not any("q_proj" in name for name in shared)
    request = SampleRequest(GROUPS[0].prompt_ids, (1, 2, 3))
    for seed in (4, 5):
        (completions,) = engine.generate([request], SamplingParams(1.0, 20, (2,)))
        group = SequenceGroup(request.prompt_ids, tuple(completion.ids for completion in completions))
        logps_N = score(policy, pack([group], policy.device), SCORING).logps_N.detach()
        recorded = torch.cat([torch.from_numpy(completion.logps) for completion in completions])
        assert float((logps_N - recorded).abs().max()) <= 2e-5
        moved(policy, seed)
        engine.sleep()
        assert sum(w.numel() for w in engine._own.values()) == 0
        with pytest.raises(RuntimeError, match="sleeps"):
            engine.generate([request], SamplingParams(1.0, 20, (2,)))
        engine.load_weights(policy.weights(), version=seed)


# Files


@pytest.mark.parametrize("variant", VARIANTS)
def test_peft_loads_what_is_saved_and_transformers_what_is_merged(variant: str, tmp_path: Path) -> None:
    policy = moved(with_adapters(load_policy("bundled"), VARIANTS[variant], seed=0))
    logits = _logits(policy.model)
    adapter, whole = tmp_path / "adapter", tmp_path / "whole"
    adapter.mkdir()
    save_adapters(policy, adapter)
    save_model(policy, whole)
    stated = json.loads((adapter / "adapter_config.json").read_text())
    base = AutoModelForCausalLM.from_pretrained(stated["base_model_name_or_path"])
    loaded = peft.PeftModel.from_pretrained(base, adapter)
    assert torch.allclose(_logits(loaded), logits, atol=2e-5)
    if variant != "dora":  # whose lengths of rows the loader of transformers passes over
        assert torch.allclose(_logits(AutoModelForCausalLM.from_pretrained(adapter)), logits, atol=2e-5)
    merged, found = AutoModelForCausalLM.from_pretrained(whole, output_loading_info=True)
    assert not any(found[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert torch.allclose(_logits(merged), logits, atol=2e-5)
    theirs = loaded.merge_and_unload().state_dict()
    assert merged.state_dict().keys() == theirs.keys()
    assert all(torch.allclose(weight, theirs[name], atol=1e-6) for name, weight in merged.state_dict().items())


def test_files_are_the_same_in_every_process(tmp_path: Path) -> None:
    policy = with_adapters(load_policy("bundled"), Lora(), seed=0)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        save_adapters(policy, tmp_path / name)
    config = json.loads((tmp_path / "one" / "adapter_config.json").read_text())
    assert config["target_modules"] == sorted(config["target_modules"])
    assert config["lora_dropout"] == 0.0
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "other" / file.name).read_bytes()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The folder of adapters over the bundled model."""
    folder = tmp_path / "saved"
    folder.mkdir()
    save_adapters(moved(with_adapters(load_policy("bundled"), Lora(rank=4, alpha=8), seed=0)), folder)
    return folder


def test_saved_adapters_are_trained_further(saved: Path) -> None:
    policy = with_adapters(load_policy("bundled"), SavedAdapter(path=str(saved)), seed=9)
    expected = load_file(saved / "adapter_model.safetensors")
    own = adapter_weights(policy.model)
    assert len(own) == len(expected) == len(policy.trainable())
    for name, weight in own.items():
        assert torch.equal(weight, expected["base_model.model." + name.replace(".default", "")])
    theirs = peft.PeftModel.from_pretrained(load_policy("bundled").model, saved)
    theirs.base_model.model.set_attn_implementation("eager")
    assert torch.allclose(_logits(theirs), _logits(policy.model), atol=2e-5)


def test_a_folder_of_adapters_is_a_model(saved: Path) -> None:
    policy = load_policy(str(saved))
    other = with_adapters(load_policy("bundled"), SavedAdapter(path=str(saved)), seed=0)
    assert policy.name == str(saved)
    assert policy.adapter is None
    assert [name for name, _ in policy.trainable()] == [name for name, _ in load_policy("bundled").trainable()]
    weights = dict(policy.model.named_parameters())
    assert all(torch.equal(weights[name], weight) for name, weight in other.weights())
    assert read_size(str(saved)) == read_size("bundled")
    assert load_tokenizer(str(saved))[1] == load_tokenizer("bundled")[1]
    frozen = load_policy(str(saved), "float32", "all_but_embeddings")
    assert not frozen.model.get_input_embeddings().weight.requires_grad


def _logits(model: Any) -> Tensor:
    if getattr(model.config, "_attn_implementation", "") == "groupwise":
        model = copy.deepcopy(model)
        model.set_attn_implementation("eager")
    with torch.no_grad():
        logits: Tensor = model.eval()(input_ids=torch.arange(3, 40).unsqueeze(0), use_cache=False).logits
    return logits


def _change(folder: Path, **stated: Any) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **stated}))


# What is refused


def test_targets_that_the_model_does_not_have() -> None:
    policy = load_policy("bundled")
    with pytest.raises(UsageError, match=r"q_prj is no linear layer of Qwen3ForCausalLM; did you mean q_proj\?"):
        with_adapters(policy, Lora(targets=["q_prj", "v_proj"]), seed=0)
    for targets in (["lm_head"], ["embed_tokens"], [], ["proj"]):
        with pytest.raises(UsageError, match="The layers end with down_proj, gate_proj, k_proj"):
            with_adapters(policy, Lora(targets=targets), seed=0)
    assert policy.adapter is None
    assert not adapted_layers(policy.model)


def test_without_peft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UsageError, match=r"pip install 'groupwise\[lora\]'"):
        with_adapters(load_policy("bundled"), Lora(), seed=0)


def test_adapters_of_another_model(saved: Path) -> None:
    policy = load_policy("bundled")
    policy.model.get_input_embeddings().weight.data.mul_(1.01)
    with pytest.raises(DataError, match=r"belong to other weights than those of 'bundled'.*model.path"):
        with_adapters(policy, SavedAdapter(path=str(saved)), seed=0)
    # Those of other programs do not say what they belong to: then the shapes do.
    (saved / "base.json").unlink()
    with pytest.raises(DataError, match=r"do not fit the model 'tiny':\n- .*: \(4, 96\), the model needs \(4, 32\)"):
        with_adapters(policy_of(build("qwen3")), SavedAdapter(path=str(saved)), seed=0)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"modules_to_save": ["lm_head"]}, "have modules_to_save, which is not supported: merge them first"),
        ({"bias": "all"}, "have bias"),
        ({"init_lora_weights": "pissa"}, "changed their base when they began"),
        ({"peft_type": "IA3", "feedforward_modules": []}, "of the kind"),
        ({"target_modules": ["nothing"]}, "do not fit 'bundled'"),
        ({"target_modules": ["q_proj"]}, "not in the model"),
    ],
)
def test_adapters_that_cannot_be_continued(stated: dict[str, Any], said: str, saved: Path) -> None:
    _change(saved, **stated)
    with pytest.raises(DataError, match=said):
        with_adapters(load_policy("bundled"), SavedAdapter(path=str(saved)), seed=0)


def test_files_that_are_not_there(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no adapters"):
        with_adapters(load_policy("bundled"), SavedAdapter(path=str(tmp_path)), seed=0)
    _change(saved, base_model_name_or_path=str(saved))
    with pytest.raises(DataError, match="belong to other adapters"):
        load_policy(str(saved))
    _change(saved, base_model_name_or_path=None)
    with pytest.raises(DataError, match="does not say which model"):
        load_policy(str(saved))
    assert "does not say which model" in str(read_size(str(saved)))
    (saved / "adapter_model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(DataError, match=r"the adapters in .* cannot be loaded"):
        with_adapters(load_policy("bundled"), SavedAdapter(path=str(saved)), seed=0)
    (saved / "adapter_model.safetensors").unlink()
    with pytest.raises(DataError, match="pickled adapters are never loaded"):
        with_adapters(load_policy("bundled"), SavedAdapter(path=str(saved)), seed=0)


# Precision and size


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_frozen_weights_in_bfloat16(dtype: torch.dtype) -> None:
    """Where the model came in bfloat16 nothing is lost, and the products are the same to the last bit."""
    policies = []
    for kept in ("float32", "bfloat16"):
        policy = load_policy("bundled")
        for weight in policy.model.parameters():
            weight.data = weight.data.to(torch.bfloat16).float()
        policy = replace(policy, compute_dtype=dtype)
        policies.append(moved(with_adapters(policy, Lora(rank=4), 0, weights_dtype=kept)))
    whole, half = policies
    ours, theirs = (score(policy, pack(GROUPS, policy.device), SCORING).logps_N for policy in (half, whole))
    assert torch.equal(ours, theirs)
    ours.sum().backward()
    assert {weight.grad.dtype for _, weight in half.trainable() if weight.grad is not None} == {torch.float32}
    size = size_of(half.model)
    frozen = {name: w for name, w in half.model.named_parameters() if "lora_" not in name}
    assert sum(w.nbytes for w in frozen.values()) == 4 * size.parameters - 2 * size.linear_parameters
    assert all(torch.equal(one[1], other[1]) for one, other in zip(half.weights(), whole.weights(), strict=True))
    models = [policy.sampling_copy() for policy in policies]
    names = [dict(model.named_parameters()) for model in models]
    assert all(torch.equal(names[0][name], names[1][name]) and w.dtype == dtype for name, w in names[0].items())


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_size_is_known_before_anything_is_loaded(variant: str, saved: Path) -> None:
    size = read_size("bundled")
    assert not isinstance(size, str)
    policy = with_adapters(load_policy("bundled"), VARIANTS[variant], seed=0)
    assert size_of(policy.model) == size
    told = VARIANTS[variant].size(size)
    assert told.parameters == sum(weight.numel() for _, weight in policy.trainable())
    assert told.adapted == sum(layer.base_layer.weight.numel() for layer in adapted_layers(policy.model).values())
    assert SavedAdapter(path=str(saved)).size(size) == VARIANTS["lora"].size(size)
