"""The weights that go to vLLM: in the form of a checkpoint, and compared with what it holds afterwards."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from groupwise.errors import BrokenRunError
from groupwise.rollout.sampling import derive_seed
from groupwise.rollout.vllm.weight_reader import digest_of

HEAD = "lm_head.weight"


def for_engine(model: PreTrainedModel, weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype) -> dict[str, Tensor]:
    """Weights by the names of the model's checkpoint, in the engine's dtype, the head always among them.

    A head that is tied to the embeddings stands in no checkpoint, and vLLM may hold a copy of it that only its own name
    renews.
    """
    made = {name: weight.detach().to(dtype) for name, weight in weights}
    made = revert_weight_conversion(model, made)
    embedding = model.get_input_embeddings().weight
    if HEAD not in made and model.config.get_text_config().tie_word_embeddings:
        name = next(name for name, weight in model.named_parameters() if weight is embedding)
        made[HEAD] = made[name]
    return {name: weight.contiguous() for name, weight in made.items()}


class WeightProof:
    """Compares what an engine holds with what it was given.

    shown: what was read back, for a note.
    """

    def __init__(self) -> None:
        self.shown = ""

    def check(
        self, given: Mapping[str, Tensor], read: Callable[[int], Mapping[str, Sequence[str]]], version: int
    ) -> None:
        """read: the engine's `read_digests`.

        Raises:
            BrokenRunError: names the tensors that differ, or says that none can be read.
        """
        seed = derive_seed("read back", version) % 2**63
        found = read(seed)
        same = {
            name: found[name][1] == digest_of(weight, found[name][0], seed)
            for name, weight in given.items()
            if name in found
        }
        # A tied head may be the embeddings themselves.
        unread = [name for name in given if name not in found and name != HEAD]
        self.shown = f"{len(same)} of {len(same) + len(unread)} tensors read back and equal"
        if unread:
            self.shown += f"; not read: {listed_names(unread)}"
        wrong = [name for name, is_same in same.items() if not is_same]
        if wrong or not same:
            what = (
                f"of {len(same)} tensors that were read back these differ: {listed_names(wrong)}"
                if same
                else "it has none of these names"
            )
            raise BrokenRunError(
                f"vLLM does not hold the weights of version {version} that it was given: {what}. What it samples is "
                "not the policy's. vLLM does not reload every architecture: take engine=inprocess, or another version "
                "of vLLM",
                is_sound=True,
            )


def listed_names(names: Sequence[str]) -> str:
    """The first three, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
