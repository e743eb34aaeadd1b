"""torch, imported at its first use: options and equations of techniques are read by commands that need no tensor.

`from groupwise.lazy import torch` reads as the module itself, for people and for type checkers; annotations that name
its types need `from __future__ import annotations`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        def __getattr__(self, name: str) -> Any:
            import torch

            value = getattr(torch, name)
            # Found without this call from now on.
            setattr(self, name, value)
            return value

    torch = _Torch()
