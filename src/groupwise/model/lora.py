"""Adapters through peft: put into a model, read from a folder, and written to one that peft reads."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from groupwise.errors import DataError, UsageError, first_line, listed
from groupwise.findings import suggest_word
from groupwise.model.adapter_options import ADAPTER_WEIGHTS, AdapterOption, Lora, NoAdapter, SavedAdapter, is_target
from groupwise.model.adapters import FrozenLinear, adapted_layers, merged_weight, without_adapters
from groupwise.model.foreign_files import check_files, foreign
from groupwise.model.load import HUB_ID, Policy, choose_trainable, load_policy
from groupwise.model.reference import digest_of
from groupwise.model.shards import together, whole
from groupwise.model.size import ADAPTER, ADAPTER_CONFIG, BELOW_ADAPTER, base_path, linear_layers, model_folder

if TYPE_CHECKING:
    from peft import LoraConfig

# Of names in files of peft.
PREFIX = "base_model.model."
# A file next to them, which says what weights they belong to.
BASE = "base.json"

# What adapters of peft can have besides A and B that is not trained, merged or saved here, and the value without it.
UNSUPPORTED = {
    "bias": "none",
    "modules_to_save": None,
    "trainable_token_indices": None,
    "target_parameters": None,
    "layer_replication": None,
    "alora_invocation_tokens": None,
    "arrow_config": None,
    "kasa_config": None,
    "velora_config": None,
    "monteclora_config": None,
    "use_bdlora": None,
    "use_qalora": False,
    "lora_bias": False,
    "fan_in_fan_out": False,
}
# Initialisations that leave the base as it was.
INITS = (True, False, "gaussian", "orthogonal")


def with_adapters(policy: Policy, options: AdapterOption, seed: int, weights_dtype: str = "float32") -> Policy:
    """The policy with adapters in its model, which alone are trained; itself with `none`.

    seed: of the first values. weights_dtype: that the other linear layers are kept in.

    Raises:
        UsageError: if peft is missing, or if the options do not fit the model.
        DataError: for adapters that cannot be read, or that belong to another model.
    """
    if isinstance(options, NoAdapter):
        return policy
    if isinstance(options, SavedAdapter):
        adapted = saved_adapters(policy, Path(options.path))
    else:
        adapted = _injected(policy, _new_config(policy, options), seed)
    below = [layer.base_layer for layer in adapted_layers(adapted.model).values()]
    for layer in below if weights_dtype == "float32" else linear_layers(adapted.model).values():
        layer.__class__ = FrozenLinear
        if weights_dtype != "float32":
            layer.weight.data = layer.weight.data.to(getattr(torch, weights_dtype))
    return adapted


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise UsageError("adapters need the extra 'lora': pip install 'groupwise[lora]'") from error
    return peft


def _new_config(policy: Policy, options: Lora) -> "LoraConfig":
    """Raises UsageError for targets that the model does not have."""
    layers = list(linear_layers(policy.model))
    ends = sorted({name.rpartition(".")[2] for name in layers})
    kind = type(policy.model).__name__
    if not layers:
        raise UsageError(f"model.adapter=lora: {kind} has no linear layers of torch that adapters could be put around")
    errors = []
    for target in [] if options.targets == "all_linear" else options.targets:
        if not any(is_target(name, [target]) for name in layers):
            hint = suggest_word(target, ends)
            errors.append(f"{target} is no linear layer of {kind}{hint}")
    if errors or not options.targets:
        found = "; ".join(errors) or "it names none"
        raise UsageError(f"model.adapter.targets: {found}. The layers end with {', '.join(ends)}; or take all_linear")
    config: LoraConfig = _peft().LoraConfig(
        r=options.rank,
        lora_alpha=int(options.alpha) if options.alpha.is_integer() else options.alpha,
        target_modules=ends if options.targets == "all_linear" else options.targets,
        use_rslora=options.rank_stabilised,
        use_dora=options.dora,
        init_lora_weights="gaussian" if options.init == "gaussian" else True,
        task_type="CAUSAL_LM",
        base_model_name_or_path=_base_name(policy.name),
    )
    return config


def _base_name(path: str) -> str:
    """A model as other programs find it: the id on the hub, or where it is on this machine."""
    folder = model_folder(path)
    return path if not folder.exists() and HUB_ID.fullmatch(path) else str(folder.absolute())


def _injected(policy: Policy, config: "LoraConfig", seed: int) -> Policy:
    """Nobody's random numbers are used up."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _peft().inject_adapter_in_model(config, policy.model)
    return replace(policy, model=model.eval(), adapter=config)


def saved_adapters(policy: Policy, folder: Path) -> Policy:
    """The policy with the adapters of a folder. Raises DataError where they cannot be read, or are of another model."""
    config, tensors = _read(folder)
    file = folder / BASE
    with foreign(f"'{file}'"):
        stated = json.loads(file.read_text(encoding="utf-8"))["sha256"] if file.is_file() else ""
    if stated and stated != base_digest(policy):
        raise DataError(
            f"the adapters in '{folder}' belong to other weights than those of '{policy.name}': they were trained on "
            f"'{config.base_model_name_or_path}'; name that in model.path"
        )
    config.inference_mode, config.lora_dropout = False, 0.0
    config.base_model_name_or_path = _base_name(policy.name)
    try:
        adapted = _injected(policy, config, 0)
    except ValueError as error:
        raise DataError(f"the adapters in '{folder}' do not fit '{policy.name}': {first_line(error)}") from error
    own = _in_files(adapted)
    wrong = [
        f"{name}: {tuple(tensors[name].shape)}, the model needs {tuple(own[name].shape)}"
        for name in own
        if name in tensors and own[name].shape != tensors[name].shape
    ]
    wrong += [f"{name}: not in the adapters" for name in own if name not in tensors]
    wrong += [f"{name}: not in the model" for name in tensors if name not in own]
    if wrong:
        lines = "\n".join(listed(wrong, 3))
        raise DataError(f"the adapters in '{folder}' do not fit the model '{policy.name}':\n{lines}")
    with torch.no_grad():
        for name, weight in own.items():
            weight.copy_(tensors[name])
    return adapted


def _read(folder: Path) -> "tuple[LoraConfig, dict[str, Tensor]]":
    if not (folder / ADAPTER_CONFIG).is_file():
        raise DataError(f"'{folder}' holds no adapters: expected {ADAPTER_CONFIG} and {ADAPTER_WEIGHTS}")
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise DataError(f"'{folder}' has no {ADAPTER_WEIGHTS}; pickled adapters are never loaded, convert them first")
    peft = _peft()
    check_files(folder)
    with foreign(f"the adapters in '{folder}'"):
        config = peft.PeftConfig.from_pretrained(str(folder))
        tensors = load_file(folder / ADAPTER_WEIGHTS)
    if str(getattr(config.peft_type, "value", config.peft_type)) != "LORA":
        raise DataError(f"'{folder}' holds adapters of the kind {config.peft_type}; expected LORA")
    extra = [name for name, value in UNSUPPORTED.items() if (getattr(config, name, value) or None) != (value or None)]
    if extra:
        raise DataError(f"the adapters in '{folder}' have {', '.join(extra)}, which is not supported: merge them first")
    if config.init_lora_weights not in INITS:
        raise DataError(
            f"the adapters in '{folder}' changed their base when they began (init_lora_weights="
            f"{config.init_lora_weights!r}): convert them to LoRA with save_pretrained of peft first"
        )
    return config, tensors


def _in_files(policy: Policy) -> dict[str, nn.Parameter]:
    """The weights of the adapters by their names in files of peft."""
    weights = {}
    for name, weight in policy.model.named_parameters():
        if ADAPTER in name:
            outer = name.replace(".default.weight", "" if "magnitude" in name else ".weight")
            weights[PREFIX + outer] = weight
    return weights


def base_digest(policy: Policy) -> str:
    """SHA-256 of the weights that the adapters are put around, whatever precision they are kept in."""
    names = ((name.replace(f"{BELOW_ADAPTER}.", "."), weight) for name, weight in policy.model.named_parameters())
    return digest_of({name: whole(weight.detach()).float() for name, weight in names if ADAPTER not in name})


def save_adapters(policy: Policy, folder: Path | None) -> None:
    """Write the adapters in the form of peft, and the tokenizer. folder: as for `save_model`."""
    with together(policy, "the adapters"):
        tensors = {name: whole(weight.detach()).cpu().contiguous() for name, weight in _in_files(policy).items()}
        digest = base_digest(policy)
    if folder is None:
        return
    save_file(tensors, folder / ADAPTER_WEIGHTS, {"format": "pt"})
    (folder / BASE).write_text(json.dumps({"sha256": digest}) + "\n", encoding="utf-8")
    policy.adapter.save_pretrained(str(folder))
    stated = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    # A set of names in an order that differs from process to process.
    stated |= {"target_modules": sorted(stated["target_modules"]), "inference_mode": True}
    (folder / ADAPTER_CONFIG).write_text(json.dumps(stated, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    policy.tokenizer.save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)


def load_merged(path: str, compute_dtype: Any, trainable: Any, stop_ids: Any, device: Any) -> Policy:
    """The model that the adapters of a folder belong to, with these merged into it; see `load_policy`."""
    policy = saved_adapters(load_policy(base_path(path), compute_dtype, stop_ids=stop_ids, device=device), Path(path))
    for layer in adapted_layers(policy.model).values():
        layer.base_layer.weight.data = merged_weight(layer)
    without_adapters(policy.model)
    policy.model.requires_grad_(True)
    choose_trainable(policy.model, trainable)
    return replace(policy, name=path, adapter=None)
