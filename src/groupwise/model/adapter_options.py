"""Which weights are trained in place of all of them: low-rank adapters, new ones or those of a folder."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from groupwise.errors import DataError
from groupwise.findings import Finding, unused_option
from groupwise.model.size import shapes_in
from groupwise.options import PositiveFloat, PositiveInt
from groupwise.technique import Card, Technique, by_name

if TYPE_CHECKING:
    from groupwise.config import TrainConfig
    from groupwise.model.size import ModelSize

ADAPTER_WEIGHTS = "adapter_model.safetensors"


@dataclass(frozen=True)
class AdapterSize:
    """parameters: of the adapters. adapted: of the linear layers that have one, without their biases."""

    parameters: int
    adapted: int


class NoAdapter(Technique):
    """The weights of the model themselves are trained, as `model.trainable` says."""

    type: Literal["none"] = "none"


class Adapter(Technique):
    """Base of the options that train adapters."""

    refused: ClassVar[Mapping[str, str]] = {
        "dropout": "there is no dropout: the old, new and reference passes would each drop something else, and their "
        "ratio would be of two different models",
        "load_in_4bit": "a base of 4 bits (QLoRA) is not supported, since nothing of it has been tested; "
        "model.weights_dtype=bfloat16 halves the base",
    }

    @abstractmethod
    def size(self, model: ModelSize) -> AdapterSize:
        """How large the adapters of a model are. Raises DataError where that cannot be found out."""

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        because = f"model.adapter={type(self).model_fields['type'].default}"
        yield from unused_option(config, "model.trainable", because, "train all weights with model.adapter=none")
        if config.model.save == "adapter":
            yield from unused_option(config, "model.save_dtype", "model.save=adapter", "save the merged model too")


class Lora(Adapter):
    """New adapters: W + s·B·A with A, B of low rank is used in place of W, and only A and B are trained.

    B begins at 0, so that the policy of step 0 is the model itself.
    """

    type: Literal["lora"] = "lora"

    rank: PositiveInt = 16
    """Columns of B and rows of A."""

    alpha: PositiveFloat = 32.0
    """s is alpha / rank."""

    targets: list[str] | Literal["all_linear"] = "all_linear"
    """Names of the linear layers that get adapters, or the ends of names, as q_proj. All but the output head."""

    rank_stabilised: bool = False
    """s is alpha / √rank, so that higher ranks learn as fast (rsLoRA)."""

    dora: bool = False
    """The length of each row of W + s·B·A is trained too, apart from its direction (DoRA). Slower."""

    init: Literal["kaiming", "gaussian"] = "kaiming"
    """How A begins: uniform within ±1/√inputs, or normal with the deviation 1/rank. Seeded by run.seed."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="LoRA",
            source="Hu et al. 2106.09685 §4.1; rsLoRA 2312.03732; DoRA 2402.09353 eq. 5",
            what="low-rank adapters are trained in place of the weights, which stay as they are",
            equation="W' = W + s·B·A, s = α/r, or α/√r (rsLoRA); DoRA: m·W'/‖W'‖ by rows",
            values="Hu et al. train r of 1 to 64 on attention alone; all linear layers since QLoRA 2305.14314",
            keys=(
                "model.adapter.rank",
                "model.adapter.alpha",
                "model.adapter.targets",
                "model.adapter.rank_stabilised",
                "model.adapter.dora",
                "model.adapter.init",
            ),
            is_on=lambda c: isinstance(c.model.adapter, Lora),
            cost="gradient and moments of the adapters alone; a KL reference without a second model; a merged copy of "
            "the adapted layers while sampling",
            test="model/test_lora.py::test_scores_and_gradients_are_those_of_the_merged_model",
            differs="Trainers differ in s, in the targets and in whether dropout is on; here there is none, since the "
            "passes of a step would be of different models.",
        ),
    )

    def size(self, model: ModelSize) -> AdapterSize:
        chosen = [shape for name, shape in model.linears.items() if is_target(name, self.targets)]
        of_one = [self.rank * (rows + columns) + (rows if self.dora else 0) for rows, columns in chosen]
        return AdapterSize(sum(of_one), sum(math.prod(shape) for shape in chosen))


class SavedAdapter(Adapter):
    """Adapters of a folder in the form of peft, which are trained further: rank, targets and the rest are theirs."""

    type: Literal["saved"] = "saved"

    path: str
    """A folder with adapter_config.json and adapter_model.safetensors, as a run leaves it in adapter/."""

    def size(self, model: ModelSize) -> AdapterSize:
        file = Path(self.path) / ADAPTER_WEIGHTS
        try:
            shapes = shapes_in(file)
        except (OSError, ValueError) as error:
            raise DataError(f"the adapters in '{self.path}' cannot be read: {error}") from error
        adapted = {name.partition(".lora_")[0].removeprefix("base_model.model.") for name in shapes}
        return AdapterSize(
            sum(math.prod(shape) for shape in shapes.values()),
            sum(math.prod(shape) for name, shape in model.linears.items() if name in adapted),
        )


AdapterOption = Annotated[NoAdapter | Lora | SavedAdapter, Field(discriminator="type"), by_name(Lora)]


def is_target(layer: str, targets: list[str] | Literal["all_linear"]) -> bool:
    """Whether a layer is meant, by all of its name or the end of it."""
    return targets == "all_linear" or any(layer == name or layer.endswith(f".{name}") for name in targets)
