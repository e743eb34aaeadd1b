"""Group-relative policy optimisation for language models, on problems with checkable answers."""

__version__ = "0.2.0"
