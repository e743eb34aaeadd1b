"""A surrogate of the user's own: a function, or a subclass of `Surrogate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ModelWrapValidatorHandler, model_validator

from groupwise.lazy import torch
from groupwise.objective.own.bind import Room, Scalar, options_of, technique_at, validated
from groupwise.objective.surrogates.surrogate import KEY, Surrogate, SurrogateInputs, SurrogateOutputs, unbounded

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


class FunctionSurrogate(Surrogate):
    """A function of SurrogateInputs and options that returns the loss of each token, or SurrogateOutputs."""

    call: ClassVar[Callable[..., Any]]
    given: ClassVar[int] = 1
    text: ClassVar[Callable[..., str]]
    bounds_ratio: ClassVar[bool] = False
    keeps_near: ClassVar[bool] = False

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        value = type(self).call(inputs, **options_of(self))
        return unbounded(value) if isinstance(value, torch.Tensor) else value

    def formula(self, ratio_is_one: bool) -> str:  # noqa: ARG002 - it is stated once
        return type(self).text(self)


def _returns(outputs: Any, inputs: SurrogateInputs) -> None:
    if not isinstance(outputs, SurrogateOutputs):
        raise ValueError(f"{type(outputs).__name__}; expected a tensor of losses over N, or SurrogateOutputs")
    axis = tuple(inputs.log_ratio_N.shape)
    named = {"low_N": outputs.low_N, "high_N": outputs.high_N, **outputs.measures}
    for name, values_N in {"loss_N": outputs.loss_N, **named}.items():
        if not isinstance(values_N, torch.Tensor) or tuple(values_N.shape) != axis:
            shape = f"shape {tuple(values_N.shape)}" if isinstance(values_N, torch.Tensor) else type(values_N).__name__
            raise ValueError(
                f"{name} of {shape}; expected one number for each token, {axis}: means and sums are of the reduction"
            )
    for name in ("low_N", "high_N"):
        if named[name].dtype != torch.bool:
            raise ValueError(f"{name} of {named[name].dtype}; expected torch.bool, where that bound took effect")


def _problems(surrogate: Surrogate, config: TrainConfig) -> list[str]:
    from groupwise.objective.own.surrogate_checks import surrogate_problems

    return surrogate_problems(surrogate, config.objective.ratio)


ROOM = Room(
    kind="surrogate",
    key=KEY,
    base=Surrogate,
    adapter=FunctionSurrogate,
    takes=("inputs",),
    methods=("loss", "of_step", "formula", "terms"),
    returns=_returns,
    problems=_problems,
)


class OwnSurrogate(Surrogate):
    """Code of your own: a function or a subclass of Surrogate, see docs/techniques-of-your-own.md."""

    type: Literal["function"] = "function"

    path: str
    """`FILE.py:NAME` or `package.module:NAME` of a function or a subclass of Surrogate."""

    options: dict[str, Scalar] = {}
    """Its options by name. Those that are not stated have its defaults."""

    @model_validator(mode="wrap")
    @classmethod
    def _in_its_place(cls, value: Any, handler: ModelWrapValidatorHandler[OwnSurrogate]) -> Any:
        return validated(value, handler, ROOM)

    def loss(self, inputs: SurrogateInputs) -> SurrogateOutputs:
        outputs: SurrogateOutputs = self._technique().loss(inputs)
        return outputs

    def formula(self, ratio_is_one: bool) -> str:
        return str(self._technique().formula(ratio_is_one))

    def _technique(self) -> Any:
        return technique_at(self.path, ROOM).model_validate(self.options)
