"""Group-relative policy optimisation for language models, on problems with checkable answers."""

from importlib.metadata import version

__version__ = version("groupwise")
