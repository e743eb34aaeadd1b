"""torch and numpy, imported at their first use: options of techniques are read by commands that need neither.

`from groupwise.lazy import torch` reads as the module itself, for people and for type checkers; annotations that name
its types need `from __future__ import annotations`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch as torch
else:

    class _Lazy:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module(self._name), name)
            # Found without this call from now on.
            setattr(self, name, value)
            return value

    torch = _Lazy("torch")
    np = _Lazy("numpy")

__all__ = ["np", "torch"]
