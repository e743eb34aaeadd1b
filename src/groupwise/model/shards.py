"""A policy whose weights, gradients and moments are divided among the ranks, by FSDP2 of torch.

Every weight is a DTensor of which each rank holds some rows. A layer's weights are gathered in front of its pass and
freed behind it, by hooks that the layer and the model are called through; gradients are summed as they are divided.
So a pass is work of all ranks together: each takes part in as many as any other, see `training.passes`.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from groupwise.errors import DataError, first_line
from groupwise.model.backends.activation_checkpointing import layers_of
from groupwise.model.backends.protocol import Scores
from groupwise.model.backends.supported import is_supported
from groupwise.ranks import Link, RankError, Ranks
from groupwise.stopping import is_out_of_memory, unbroken

if TYPE_CHECKING:
    from groupwise.model.load import Policy

# How long a rank whose collective broke waits for another one to say that it is to blame.
BLAME_SECONDS = 5.0

T = TypeVar("T")


@dataclass(frozen=True)
class Shards:
    """How a policy is divided.

    is_supported: whether its layers were of the kind that `packed_cpu` computes before they were wrapped.
    ranks: those that meet in front of each pass. savers: the same processes in a group of their own, which still work
    together where a pass of the others was broken off. mesh: of the group through which FSDP2 exchanges.
    """

    is_supported: bool
    ranks: Ranks
    savers: Ranks
    mesh: DeviceMesh


def shard(policy: "Policy", ranks: Ranks, shards: Shards | None = None) -> "Policy":
    """Divide the weights of a policy among all ranks, in place; what trains them is made from the result.

    shards: of a policy that is divided already, whose groups this one shares.

    Raises:
        DataError: for a model that FSDP2 cannot wrap.
    """
    patience = timedelta(seconds=ranks.deadline_seconds)
    if shards is None:
        savers = replace(ranks, link=Link(), group=dist.new_group(timeout=patience))
        group = dist.new_group(timeout=patience)
        mesh = DeviceMesh.from_group(group, policy.device.type, mesh_dim_names=("ranks",))
        shards = Shards(is_supported(policy.backbone), ranks, savers, mesh)
    try:
        # From the inside out, as it has to be.
        for module in [*reversed(layers_of(policy.backbone)), policy.model]:
            fully_shard(module, mesh=shards.mesh)
    except (ValueError, NotImplementedError, AssertionError) as error:
        raise DataError(
            f"model.shard=full: the weights of '{policy.name}' ({type(policy.model).__name__}) cannot be divided "
            f"among the ranks: {first_line(error)}. Set model.shard=none"
        ) from error
    for module in policy.model.modules():
        if isinstance(module, FSDPModule):
            # The loss counts the tokens of all ranks already: gradients are summed. Not by a factor in the
            # collective, which gloo does not have.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return replace(policy, shards=shards)


def score_through(model: nn.Module, make: Callable[[], Scores]) -> Scores:
    """What `make` computes, as the forward pass of the model, so that the hooks at its root act.

    They see the tensors of dictionaries, and none in a dataclass.
    """
    made: list[Scores] = []
    module: Any = model

    def forward() -> dict[str, Tensor]:
        # A head that takes the model's own code calls it once more.
        del module.forward
        made.append(make())
        return {one.name: value for one in fields(made[0]) if isinstance(value := getattr(made[0], one.name), Tensor)}

    module.forward = forward
    try:
        tensors = module()
    finally:
        vars(module).pop("forward", None)
    if not torch.is_grad_enabled():
        # Behind a pass without a backward one the root would keep its weights as they are now.
        module.reshard()
    return replace(made[0], **tensors)


def call_through(layer: Any, forward: Callable[..., T], *arguments: Any) -> T:
    """Call a layer with another forward pass than its own, so that its hooks act."""
    layer.forward = forward
    try:
        result: T = layer(*arguments)
        return result
    finally:
        del layer.forward


@contextmanager
def _together(shards: Shards, what: str) -> Iterator[None]:
    ranks, link = shards.ranks, shards.ranks.link
    ranks.meet(what)
    try:
        with unbroken():
            yield
    except BaseException as error:
        # The others are in the middle of it: nothing that is sent now would be understood.
        link.is_over = True
        if isinstance(error, RuntimeError) and not is_out_of_memory(error):
            blamed = _blamed(ranks)
            if blamed or _is_lost(error):
                raise RankError(blamed or f"a rank is gone in the middle of {what}: {first_line(error)}") from error
        if link.store is not None:
            said = str(error).partition("\n")[0]
            text = f"rank {ranks.rank} of {ranks.size}, at {what}: {type(error).__name__}: {said}"
            with suppress(RuntimeError):
                link.store.set(f"left/{ranks.rank}", json.dumps(text))
        raise


def together(policy: "Policy", what: str) -> Any:
    """A context for work in which torch exchanges the tensors of a policy, where it is divided.

    All ranks come to its beginning, where each may still leave. Within it one that fails says so in the store, and the
    others raise RankError as soon as their part of the exchange breaks.
    """
    return nullcontext() if policy.shards is None else _together(policy.shards, what)


def _blamed(ranks: Ranks) -> str:
    """What another rank said when it left, "" if none did."""
    store, until = ranks.link.store, time.monotonic() + BLAME_SECONDS
    while store is not None and time.monotonic() < until:
        for rank in range(ranks.size):
            with suppress(RuntimeError):
                if rank != ranks.rank and store.check([f"left/{rank}"]):
                    return str(json.loads(store.get(f"left/{rank}")))
        time.sleep(0.1)
    return ""


def _is_lost(error: RuntimeError) -> bool:
    return isinstance(error, dist.DistError) or any(sign in str(error) for sign in ("gloo", "NCCL", "onnection"))


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor; of a divided one each rank gathers the others' rows, together with them."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def own(tensor: Tensor) -> Tensor:
    """The part of a tensor that this rank holds, in the same memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def like(tensor: Tensor, given: Tensor) -> Tensor:
    """A whole tensor on the device of a given one, and divided as it is. Nothing is exchanged."""
    moved = tensor.to(given.device)
    if not isinstance(given, DTensor):
        return moved
    return distribute_tensor(moved, given.device_mesh, given.placements, src_data_rank=None)
