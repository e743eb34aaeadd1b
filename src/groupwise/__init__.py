"""Group-relative policy optimisation for language models, on problems with checkable answers.

    run = groupwise.train("demo")

Names are imported at their first use: `import groupwise` loads no torch. See docs/api.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groupwise.api.questions import evaluate as evaluate
    from groupwise.api.questions import explain as explain
    from groupwise.api.questions import grade as grade
    from groupwise.api.questions import load_config as load_config
    from groupwise.api.results import Metrics as Metrics
    from groupwise.api.results import Run as Run
    from groupwise.api.results import open_run as open_run
    from groupwise.api.runs import Steps as Steps
    from groupwise.api.runs import resume as resume
    from groupwise.api.runs import steps as steps
    from groupwise.api.runs import train as train
    from groupwise.config import TrainConfig as TrainConfig
    from groupwise.errors import BrokenRunError as BrokenRunError
    from groupwise.errors import DataError as DataError
    from groupwise.errors import GroupwiseError as GroupwiseError
    from groupwise.errors import RunInterrupted as RunInterrupted
    from groupwise.errors import UsageError as UsageError
    from groupwise.explaining.report import Explanation as Explanation
    from groupwise.grading.functions.samples import SampleInput as SampleInput
    from groupwise.grading.graded_group import GradingError as GradingError
    from groupwise.grading.records import Verdict as Verdict
    from groupwise.objective.advantages.estimator import AdvantageEstimator as AdvantageEstimator
    from groupwise.objective.masks.policy_mask import MaskInputs as MaskInputs
    from groupwise.objective.masks.policy_mask import PolicyMask as PolicyMask
    from groupwise.objective.own.declare import advantage as advantage
    from groupwise.objective.own.declare import mask as mask
    from groupwise.objective.own.declare import surrogate as surrogate
    from groupwise.objective.surrogates.surrogate import Surrogate as Surrogate
    from groupwise.objective.surrogates.surrogate import SurrogateInputs as SurrogateInputs
    from groupwise.objective.surrogates.surrogate import SurrogateOutputs as SurrogateOutputs
    from groupwise.own_code import OwnCodeError as OwnCodeError
    from groupwise.problem import Problem as Problem
    from groupwise.training.step import Step as Step

__version__ = "0.2.0"

_HOMES = {
    "api.questions": ("evaluate", "explain", "grade", "load_config"),
    "api.results": ("Metrics", "Run", "open_run"),
    "api.runs": ("Steps", "resume", "steps", "train"),
    "config": ("TrainConfig",),
    "errors": ("BrokenRunError", "DataError", "GroupwiseError", "RunInterrupted", "UsageError"),
    "explaining.report": ("Explanation",),
    "grading.functions.samples": ("SampleInput",),
    "grading.graded_group": ("GradingError",),
    "grading.records": ("Verdict",),
    "objective.advantages.estimator": ("AdvantageEstimator",),
    "objective.masks.policy_mask": ("MaskInputs", "PolicyMask"),
    "objective.own.declare": ("advantage", "mask", "surrogate"),
    "objective.surrogates.surrogate": ("Surrogate", "SurrogateInputs", "SurrogateOutputs"),
    "own_code": ("OwnCodeError",),
    "problem": ("Problem",),
    "training.loop": ("Step",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AdvantageEstimator",
    "BrokenRunError",
    "DataError",
    "Explanation",
    "GradingError",
    "GroupwiseError",
    "MaskInputs",
    "Metrics",
    "OwnCodeError",
    "PolicyMask",
    "Problem",
    "Run",
    "RunInterrupted",
    "SampleInput",
    "Step",
    "Steps",
    "Surrogate",
    "SurrogateInputs",
    "SurrogateOutputs",
    "TrainConfig",
    "UsageError",
    "Verdict",
    "__version__",
    "advantage",
    "evaluate",
    "explain",
    "grade",
    "load_config",
    "mask",
    "open_run",
    "resume",
    "steps",
    "surrogate",
    "train",
]


# Type checkers take any name for granted where a module has this function.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
