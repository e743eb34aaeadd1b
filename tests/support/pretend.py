"""A pretend accelerator, so that what runs on a device is tested without one. Importing it makes it torch's.

Its tensors hold a CPU tensor that computes for them. Like a real device it refuses operations that mix its tensors with
the CPU's, and asking it for a number makes the process wait for it: `waits` counts these by operation.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._device import _device_constructors
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"

aten = torch.ops.aten
# What a device has to answer before the process can continue: numbers, and shapes that depend on the data.
ASKS = {
    aten._local_scalar_dense,
    aten.equal,
    aten.nonzero,
    aten.masked_select,
    aten._unique2,
    aten.unique_dim,
    aten.unique_consecutive,
    aten.bincount,
}

waits: Counter[str] = Counter()


class Pretend(Tensor):
    """A tensor on the pretend device; raw: the one that computes for it."""

    raw: Tensor
    _set_data: Any = getattr(Tensor, "data").__set__  # noqa: B009

    @staticmethod
    def __new__(cls, raw: Tensor) -> "Pretend":
        made = Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device(NAME, 0),
        )
        made.raw = raw
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> "Pretend":
        if id(self) not in memo:
            made = Pretend(self.raw.clone()).requires_grad_(self.requires_grad)
            if isinstance(self, torch.nn.Parameter):
                made = torch.nn.Parameter(made, self.requires_grad)
            memo[id(self)] = made
        copied: Pretend = memo[id(self)]
        return copied

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_placed(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_placed(index), value)

    def tolist(self) -> Any:
        waits["tolist"] += 1
        return self.raw.tolist()

    def data_ptr(self) -> int:
        return self.raw.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.raw.untyped_storage()

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        assert isinstance(value, Pretend)
        self.raw = value.raw
        type(self)._set_data(self, value)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return run(func, args, kwargs or {})


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation of a pretend tensor, or one that makes one."""
    copies = func.overloadpacket in (aten._to_copy, aten.copy_, aten._copy_from)
    given = [leaf for leaf in pytree.arg_tree_leaves(*args, **kwargs) if isinstance(leaf, Tensor)]
    strangers = [tensor for tensor in given if not isinstance(tensor, Pretend) and tensor.dim() > 0]
    if strangers and not copies:
        places = ", ".join(f"{tuple(tensor.shape)} on {tensor.device}" for tensor in given)
        raise RuntimeError(f"{func}: expected all tensors on one device, but found {places}")
    indices = [leaf for leaf in pytree.arg_tree_leaves(*args[1:2]) if isinstance(leaf, Tensor)]
    by_mask = func.overloadpacket in (aten.index, aten.index_put, aten.index_put_) and any(
        index.dtype == torch.bool for index in indices
    )
    unsized = func in (aten.repeat_interleave.Tensor, aten.repeat_interleave.self_Tensor) and not kwargs.get(
        "output_size"
    )
    to_cpu = "device" in kwargs and kwargs["device"] is not None and torch.device(kwargs["device"]).type == "cpu"
    leaves = copies and (to_cpu or (func.overloadpacket is aten.copy_ and not isinstance(args[0], Pretend)))
    if func.overloadpacket in ASKS or by_mask or unsized or (leaves and any(isinstance(t, Pretend) for t in given)):
        waits[str(func)] += 1
    raw_args, raw_kwargs = pytree.tree_map(_raw, (args, kwargs))
    if raw_kwargs.get("device") is not None:
        raw_kwargs["device"] = torch.device("cpu")
    raw_kwargs.pop("pin_memory", None)
    out = func(*raw_args, **raw_kwargs)
    if func.overloadpacket is aten.copy_:
        return args[0]
    if to_cpu:
        return out
    own = [tensor for tensor in given if isinstance(tensor, Pretend)]

    def wrapped(value: Any) -> Any:
        if not isinstance(value, Tensor) or isinstance(value, Pretend):
            return value
        same = next((tensor for tensor in own if tensor.raw is value), None)
        return Pretend(value) if same is None else same

    return pytree.tree_map(wrapped, out)


def _raw(value: Any) -> Any:
    return value.raw if isinstance(value, Pretend) else value


def _placed(index: Any) -> Any:
    """Lists of indices are made into tensors on the CPU, as an index of a real device's tensor is, and moved."""
    if isinstance(index, tuple):
        return tuple(_placed(part) for part in index)
    return torch.tensor(index).to(NAME) if isinstance(index, list) else index


def _made_on_cpu(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of torch that fills its tensor by itself, which a backend in Python is not asked to do."""

    def made(*args: Any, device: Any = None, requires_grad: bool = False, **kwargs: Any) -> Tensor:
        tensor = make(*args, **kwargs)
        if device is not None and torch.device(device).type != "cpu":
            tensor = tensor.to(device)
        return tensor.requires_grad_() if requires_grad else tensor

    return made


class _Module:
    """What torch asks of a kind of device."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None: ...

    def device_count(self) -> int:
        return 1

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """The waits inside of this context."""
    before, during = waits.copy(), Counter[str]()
    yield during
    during.update(waits - before)


def install() -> None:
    """Make it torch's accelerator, for the rest of the process."""
    _setup_privateuseone_for_python_backend(NAME, _Module())
    # `with torch.device(...)` knows the functions that it acts on by themselves: it has to keep the true ones.
    _device_constructors()
    for name in ("tensor", "arange"):
        setattr(torch, name, _made_on_cpu(getattr(torch, name)))
    # Its work is done when it is asked for; it has no allocator of torch's kind.
    setattr(torch.accelerator, "synchronize", lambda *_: waits.update(["synchronize"]))  # noqa: B010
    setattr(torch.accelerator, "empty_cache", lambda: None)  # noqa: B010
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda func, *args, **kwargs: run(func, args, kwargs), "PrivateUse1")
    _kept.append(library)


_kept: list[torch.library.Library] = []
