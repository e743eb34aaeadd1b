"""What is wrong with the conditions under which rewards are paid, and where wrong answers are paid like right ones."""

import difflib
import graphlib

from groupwise.grading.reward_options import FunctionOptions, RewardOptions
from groupwise.grading.totals import BUILT_IN, CORRECTNESS, FORMAT, LANGUAGE, conditions

# The other built-in components are penalties, or at most 0.5.
CAN_BE_FULL = (CORRECTNESS, FORMAT, LANGUAGE)


def conditions_fault(options: RewardOptions) -> list[str]:
    """Everything that is wrong with `rewards.format.requires`, `rewards.functions.NAME.requires` and `rewards.gate`.

    Unknown names, components that are never full, functions whose name is taken, and conditions in a circle.
    """
    faults = _function_faults(options)
    stated = conditions(options)
    for name, when in stated.items():
        faults += _target_fault(options, _key(name), when)
    if options.gate:
        faults += _target_fault(options, "rewards.gate", options.gate)
    try:
        graphlib.TopologicalSorter({name: [when] for name, when in stated.items()}).prepare()
    except graphlib.CycleError as error:
        shown = ", ".join(f"{_key(name)}={stated[name]}" for name in dict.fromkeys(reversed(error.args[1])))
        faults.append(f"{shown}: these conditions go in a circle; leave one of them empty")
    return faults


def format_trap(options: RewardOptions) -> str | None:
    """Where a wrong answer that keeps the form is paid like a right one that does not, or better, with the numbers.

    None where a right answer is always paid more by these options. Of functions nobody knows what they return: they are
    taken as 0 to 1, and the text says so. Correctness of weight 0 is no trap but a choice.
    """
    right = options.correctness.weight
    if right == 0 or options.gate == CORRECTNESS:
        return None
    parts = {name: weight for name, weight in _positive_weights(options).items() if not _needs_right(options, name)}
    wrong = sum(parts.values())
    right_alone = 0.0 if options.gate else right
    if wrong == 0 or wrong < right_alone:
        return None
    shown = " + ".join(f"{weight:g} ({name})" for name, weight in parts.items())
    total = f"{shown} = {wrong:g}" if len(parts) > 1 else shown
    keys = ", ".join(_weight_key(name) for name in parts)
    if options.gate:
        return (
            f"with rewards.gate={options.gate} a right answer that is not full in {options.gate} earns nothing, and a "
            f"wrong one that is full in it up to {total}{_unknown_range(parts)}: set rewards.gate={CORRECTNESS}, or "
            "set requires=correctness for the rest"
        )
    than = "as much as" if wrong == right else "more than"
    return (
        f"a wrong answer can earn {total}, {than} the {right:g} of a right one without it{_unknown_range(parts)}: "
        f"lower {keys} to less than {right:g}{' together' if len(parts) > 1 else ''} (0.1 or 0.2), or set "
        "requires=correctness"
    )


def _function_faults(options: RewardOptions) -> list[str]:
    faults = [
        f"rewards.functions.{name}: the name is taken; call it otherwise"
        for name in options.functions
        if name in (*BUILT_IN, "auto", "math", "code")
    ]
    grader = options.functions.get(options.correctness.grader)
    if grader is not None:
        faults += [
            f"rewards.functions.{options.correctness.grader}.{field} has no effect: the function grades correctness, "
            f"which is paid by rewards.correctness.weight; remove it"
            for field in ("weight", "requires")
            if getattr(grader, field) != FunctionOptions.model_fields[field].default
        ]
    return faults


def _target_fault(options: RewardOptions, key: str, target: str) -> list[str]:
    """What is wrong with a component that has to be full for something."""
    own = [name for name in options.functions if name not in (*BUILT_IN, options.correctness.grader)]
    if target in (*CAN_BE_FULL, *own):
        return []
    if target in BUILT_IN:
        return [f"{key}={target}: {target} never reaches 1, so that nothing would ever be paid"]
    if target in options.functions:
        return [f"{key}={target}: this function grades correctness; write {key}={CORRECTNESS}"]
    known = [*CAN_BE_FULL, *own]
    near = difflib.get_close_matches(target, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
    return [f"{key}={target}: there is no such component; {hint}"]


def _positive_weights(options: RewardOptions) -> dict[str, float]:
    """What can add to the total of any answer, by component. The length is no part: it pays wrong answers at most 0."""
    stated = {FORMAT: options.format.weight, LANGUAGE: options.language.weight}
    stated |= {name: f.weight for name, f in options.functions.items() if name != options.correctness.grader}
    return {name: weight for name, weight in stated.items() if weight > 0}


def _needs_right(options: RewardOptions, name: str) -> bool:
    return conditions(options).get(name) == CORRECTNESS


def _unknown_range(parts: dict[str, float]) -> str:
    functions = [name for name in parts if name not in BUILT_IN]
    if not functions:
        return ""
    return f" (what {' and '.join(functions)} can return is not known; taken as 0 to 1)"


def _key(name: str) -> str:
    return "rewards.format.requires" if name == FORMAT else f"rewards.functions.{name}.requires"


def _weight_key(name: str) -> str:
    return f"rewards.{name}.weight" if name in BUILT_IN else f"rewards.functions.{name}.weight"
