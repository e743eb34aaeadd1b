"""An advantage estimator of the user's own: a function, or a subclass of `AdvantageEstimator`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ModelWrapValidatorHandler, model_validator

from groupwise.lazy import torch
from groupwise.objective.advantages.estimator import AdvantageEstimator, GroupRewards, StepMoments, finite, has_signal
from groupwise.objective.advantages.group import KEY
from groupwise.objective.own.bind import Room, Scalar, options_of, technique_at, validated

if TYPE_CHECKING:
    from torch import Tensor

    from groupwise.config import TrainConfig


class FunctionEstimator(AdvantageEstimator):
    """A function of total rewards over P, G, of the step's `moments` if it takes them, and of options."""

    call: ClassVar[Callable[..., Any]]
    given: ClassVar[int] = 1
    text: ClassVar[Callable[..., str]]

    def advantages(self, parts: Sequence[GroupRewards], over_ranks: StepMoments) -> list[Tensor]:
        totals, options = [finite(part.totals_PG) for part in parts], options_of(self)
        moments = [over_ranks(totals)] if type(self).given == 2 else []
        return [type(self).call(totals_PG, *moments, **options) for totals_PG in totals]

    def signal(self, part: GroupRewards) -> Tensor:
        differ_P = has_signal(part.totals_PG) if self.needs_group else torch.ones(len(part.totals_PG), dtype=torch.bool)
        if type(self).given == 2:
            return differ_P
        values_PG: Tensor = type(self).call(finite(part.totals_PG), **options_of(self))
        return differ_P & (values_PG != 0).any(1)

    def formula(self) -> str:
        return type(self).text(self)


def _returns(values: Any, parts: Sequence[GroupRewards], _: StepMoments) -> None:
    if not isinstance(values, list) or len(values) != len(parts):
        raise ValueError(f"{type(values).__name__}; expected a list of {len(parts)} tensors, one for each part")
    for values_PG, part in zip(values, parts, strict=True):
        shape = tuple(part.totals_PG.shape)
        if not isinstance(values_PG, torch.Tensor):
            raise ValueError(f"{type(values_PG).__name__}; expected a tensor of advantages over P, G, {shape}")
        if tuple(values_PG.shape) != shape or values_PG.dtype != torch.float64:
            raise ValueError(
                f"advantages of shape {tuple(values_PG.shape)} and {values_PG.dtype}; expected one for each reward, "
                f"{shape} of torch.float64"
            )


def _problems(estimator: AdvantageEstimator, config: TrainConfig) -> list[str]:
    from groupwise.objective.own.estimator_checks import estimator_problems

    return estimator_problems(estimator, config.batch.samples_per_prompt)


ROOM = Room(
    kind="advantage estimator",
    key=KEY,
    base=AdvantageEstimator,
    adapter=FunctionEstimator,
    takes=("rewards_PG", "moments"),
    methods=("advantages", "signal", "formula", "least_graded"),
    returns=_returns,
    problems=_problems,
)


class OwnEstimator(AdvantageEstimator):
    """Code of your own: a function or a subclass of AdvantageEstimator, see docs/techniques-of-your-own.md."""

    type: Literal["function"] = "function"

    path: str
    """`FILE.py:NAME` or `package.module:NAME` of a function or a subclass of AdvantageEstimator."""

    options: dict[str, Scalar] = {}
    """Its options by name. Those that are not stated have its defaults."""

    @model_validator(mode="wrap")
    @classmethod
    def _in_its_place(cls, value: Any, handler: ModelWrapValidatorHandler[OwnEstimator]) -> Any:
        return validated(value, handler, ROOM)

    def advantages(self, parts: Sequence[GroupRewards], over_ranks: StepMoments) -> list[Tensor]:
        values: list[Tensor] = self._technique().advantages(parts, over_ranks)
        return values

    def formula(self) -> str:
        return str(self._technique().formula())

    def _technique(self) -> Any:
        return technique_at(self.path, ROOM).model_validate(self.options)
