"""The last complete step of a run, in a form that can be saved at any time."""

from collections.abc import Iterator

import torch
from torch import Tensor

from groupwise.model.load import Policy
from groupwise.model.shards import own


class LastStep:
    """Whether weights and moments are those that the last complete step left, and how they become so again.

    With one optimizer update in a step they are until it begins. With several (`keeps_copy`) a copy is made before the
    first one, in main memory, so that the step can be thrown away between any two of them. is_recorded: whether all of
    its records are written. number: of the step that is being done, or was done last.
    """

    def __init__(self, policy: Policy, optimizer: torch.optim.Optimizer, keeps_copy: bool) -> None:
        self._policy, self._optimizer, self.keeps_copy = policy, optimizer, keeps_copy
        self._copies: dict[str, Tensor] = {}
        self.is_whole = self.is_recorded = True
        self.number = 0

    def before_update(self) -> None:
        """The weights are about to be changed."""
        if self.is_whole and self.keeps_copy:
            for name, tensor in self._tensors():
                if name in self._copies:
                    self._copies[name].copy_(tensor)
                else:
                    self._copies[name] = tensor.detach().to("cpu", copy=True)
        self.is_whole = False

    def complete(self) -> None:
        """The step that changed them is complete."""
        self.is_whole = True

    def restore(self) -> bool:
        """Throw away what was done since; False if the weights have moved and there is no copy."""
        self._optimizer.zero_grad(set_to_none=True)
        if not self.is_whole and self.keeps_copy:
            with torch.no_grad():
                for name, tensor in self._tensors():
                    if name in self._copies:
                        tensor.copy_(self._copies[name])
            for _, weight in self._policy.trainable():
                # Before the first update of a run the optimizer holds nothing.
                if not any(name.startswith("state/") for name in self._copies):
                    self._optimizer.state.pop(weight, None)
            self.is_whole = True
        return self.is_whole

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        for name, weight in self._policy.trainable():
            yield f"weight/{name}", own(weight)
            for key, value in self._optimizer.state.get(weight, {}).items():
                yield f"state/{key}/{name}", own(value)
