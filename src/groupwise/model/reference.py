"""The reference policy of a KL penalty: the policy at step 0, frozen."""

import copy
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from groupwise.model.adapters import adapted_layers, adapter_weights
from groupwise.model.load import Policy
from groupwise.model.shards import own


@dataclass(frozen=True)
class KeptAdapters(Policy):
    """A policy on the same model as another one, with adapters as they were; only these are kept.

    Adapters whose B is 0 change nothing, and are passed over.
    """

    kept: dict[str, Tensor] = field(default_factory=dict)

    @contextmanager
    def active(self) -> Iterator[None]:
        """See `Policy`."""
        live = adapter_weights(self.model)
        if self.shards is not None:
            # FSDP2 gathers from the memory that it found when it wrapped the layers.
            with _exchanged({own(weight): own(self.kept[name]) for name, weight in live.items()}):
                yield
            return
        layers = adapted_layers(self.model) if self._change_nothing() else {}
        trained = {name: weight.data for name, weight in live.items()}
        try:
            for name, weight in live.items():
                weight.data = self.kept[name]
            for layer in layers.values():
                layer.enable_adapters(False)
            yield
        finally:
            for layer in layers.values():
                layer.enable_adapters(True)
            for name, weight in live.items():
                weight.data = trained[name]

    def _change_nothing(self) -> bool:
        # A length that is trained is that of the rows of W before anything is.
        moved = any(bool(weight.any()) for name, weight in self.kept.items() if ".lora_B." in name)
        return not moved and not any("lora_magnitude_vector" in name for name in self.kept)


@contextmanager
def _exchanged(by_memory: Mapping[Tensor, Tensor]) -> Iterator[None]:
    """Inside this context the tensors hold the values of others."""
    with torch.no_grad():
        before = [tensor.clone() for tensor in by_memory]
        for tensor, values in by_memory.items():
            tensor.copy_(values)
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, values in zip(by_memory, before, strict=True):
                tensor.copy_(values)


def frozen_copy(policy: Policy) -> Policy:
    """The policy as it is now, whatever it was loaded from, that nothing trains; of adapters a copy of them alone."""
    if policy.adapter is not None:
        kept = {name: weight.detach().clone() for name, weight in adapter_weights(policy.model).items()}
        return KeptAdapters(**vars(policy), kept=kept)
    return replace(policy, model=copy.deepcopy(policy.model).requires_grad_(False).eval())


def own_weights(reference: Policy) -> dict[str, Tensor]:
    """What a reference holds apart from the policy, shared weights once."""
    if isinstance(reference, KeptAdapters):
        return reference.kept
    return {name: weight.detach() for name, weight in reference.model.named_parameters()}


def refresh(reference: Policy, policy: Policy) -> None:
    """The policy as it is now becomes the reference."""
    if isinstance(reference, KeptAdapters):
        for name, weight in adapter_weights(policy.model).items():
            reference.kept[name].copy_(weight.detach())
    else:
        reference.model.load_state_dict(policy.model.state_dict())


def fingerprint_weights(policy: Policy) -> str:
    """SHA-256 of all weights, or of this rank's part of divided ones, in the order of their names."""
    with policy.active():
        return digest_of(policy.model.state_dict())


def digest_of(weights: Mapping[str, Tensor]) -> str:
    """SHA-256 of tensors, in the order of their names."""
    digest = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(own(weight.detach()).cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
