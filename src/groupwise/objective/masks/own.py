"""A mask of the policy term of the user's own: a function, or a subclass of `PolicyMask`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ModelWrapValidatorHandler, model_validator

from groupwise.lazy import torch
from groupwise.objective.masks.policy_mask import MaskInputs, PolicyMask
from groupwise.objective.own.bind import Room, Scalar, options_of, technique_at, validated

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class FunctionMask(PolicyMask):
    """A function of MaskInputs and options that returns which tokens keep their policy term."""

    call: ClassVar[Callable[..., Any]]
    given: ClassVar[int] = 1
    text: ClassVar[Callable[..., str]]

    def kept(self, inputs: MaskInputs) -> Tensor:
        kept_N: Tensor = type(self).call(inputs, **options_of(self))
        return kept_N

    def formula(self) -> str:
        return type(self).text(self)


def _returns(kept_N: Any, inputs: MaskInputs) -> None:
    axis = tuple(inputs.new_logps_N.shape)
    if not isinstance(kept_N, torch.Tensor):
        raise ValueError(f"{type(kept_N).__name__}; expected a tensor of bool over N, {axis}")
    if tuple(kept_N.shape) != axis or kept_N.dtype != torch.bool:
        raise ValueError(f"shape {tuple(kept_N.shape)} of {kept_N.dtype}; expected torch.bool for each token, {axis}")


def _problems(mask: PolicyMask, config: TrainConfig) -> list[str]:
    from groupwise.objective.own.mask_checks import mask_problems

    return mask_problems(mask, config.objective.ratio)


ROOM = Room(
    kind="mask",
    key="off_policy_mask",
    base=PolicyMask,
    adapter=FunctionMask,
    takes=("inputs",),
    methods=("kept", "of_step", "formula"),
    returns=_returns,
    problems=_problems,
)


class OwnMask(PolicyMask):
    """Code of your own: a function or a subclass of PolicyMask, see docs/techniques-of-your-own.md."""

    type: Literal["function"] = "function"

    path: str
    """`FILE.py:NAME` or `package.module:NAME` of a function or a subclass of PolicyMask."""

    options: dict[str, Scalar] = {}
    """Its options by name. Those that are not stated have its defaults."""

    @model_validator(mode="wrap")
    @classmethod
    def _in_its_place(cls, value: Any, handler: ModelWrapValidatorHandler[OwnMask]) -> Any:
        return validated(value, handler, ROOM)

    def kept(self, inputs: MaskInputs) -> Tensor:
        kept_N: Tensor = self._technique().kept(inputs)
        return kept_N

    def formula(self) -> str:
        return str(self._technique().formula())

    def _technique(self) -> Any:
        return technique_at(self.path, ROOM).model_validate(self.options)
