"""Test cases that a row spells out as data: inputs and outputs of a whole program, or arguments and results."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from groupwise.data.programs.packed import read_json, unpacked
from groupwise.problem import CallTest, CodeTests, StdinTest

CASE_COLUMNS = ("input_output", "tests", "test_cases", "public_test_cases", "private_test_cases")
# JSON has no tuples: where it says list, a tuple of the same elements is meant as well.
_LIST_VIEW = "list(result) if isinstance(result, tuple) else result"


def cases_of(columns: Mapping[str, Any]) -> CodeTests | None:
    """The tests of the first column that holds some, or of a reference answer that spells them out; None without.

    LiveCodeBench splits its tests over two columns; they count together. Raises ValueError where a column of tests
    cannot be used.
    """
    found = [(name, columns[name]) for name in CASE_COLUMNS if columns.get(name) not in (None, "", [], {})]
    if not found:
        nested = columns.get("reward_model")
        reference = nested.get("ground_truth") if isinstance(nested, Mapping) else None
        value = _parsed("reward_model.ground_truth", reference) if _looks_like_cases(reference) else None
        return None if value is None else _tests("reward_model.ground_truth", value, columns)
    if found[0][0].endswith("_test_cases"):
        return _split_cases([pair for pair in found if pair[0].endswith("_test_cases")], columns)
    name, value = found[0]
    return _tests(name, _parsed(name, value), columns)


def _split_cases(found: Sequence[tuple[str, Any]], columns: Mapping[str, Any]) -> CodeTests:
    cases: list[Any] = []
    weak = ""
    for name, value in found:
        try:
            parsed = _parsed(name, unpacked(value))
        except ValueError:
            weak = f"left out `{name}`, which is neither JSON nor a packed text"
            continue
        if not isinstance(parsed, list):
            raise ValueError(
                f"`{name}` holds {type(parsed).__name__}, expected a list of objects with input and output"
            )
        cases.extend(parsed)
    if weak and not cases:
        raise ValueError(f"no test can be read: {weak}")
    return replace(_tests(found[0][0], cases, columns), weak_oracle=weak)


def _looks_like_cases(reference: Any) -> bool:
    if isinstance(reference, str):
        return reference.lstrip().startswith("{") and '"inputs"' in reference and '"outputs"' in reference
    return isinstance(reference, Mapping) and {"inputs", "outputs"} <= reference.keys()


def _parsed(name: str, value: Any) -> Any:
    if not isinstance(value, (str, bytes)):
        return value
    try:
        return read_json(value)
    except (ValueError, RecursionError):
        raise ValueError(f"`{name}` is not JSON; expected inputs and outputs") from None


def _tests(name: str, value: Any, columns: Mapping[str, Any]) -> CodeTests:
    if isinstance(value, Mapping):
        return _of_columns(name, value)
    if not isinstance(value, list) or not value or not all(isinstance(case, Mapping) for case in value):
        raise ValueError(f"`{name}` holds no list of objects with input and output")
    if all("inputs" in case and "outputs" in case for case in value) and len(value) == 1:
        return _of_columns(name, value[0])
    for case in value:
        if not {"input", "output"} <= case.keys():
            raise ValueError(f"`{name}` has a case without input or output: {sorted(case)}")
    kinds = {str(case.get("testtype", case.get("type", "stdin"))) for case in value}
    if len(kinds) > 1:
        raise ValueError(f"`{name}` mixes kinds of tests: {', '.join(sorted(kinds))}")
    function = _function_name(value, columns)
    if kinds <= {"functional", "function_call"}:
        if not function:
            raise ValueError(f"`{name}` tests a function, but no fn_name, func_name or entry_point names it")
        calls = tuple(_call(_arguments(case["input"]), _json_value(case["output"])) for case in value)
        return CodeTests(calls=calls, entry_point=function, usual_imports=True)
    return CodeTests(
        stdin=tuple(StdinTest(_text(case["input"]), _text(case["output"])) for case in value),
        usual_imports=name.endswith("_test_cases"),
    )


def _of_columns(name: str, value: Mapping[str, Any]) -> CodeTests:
    """`{"inputs": […], "outputs": […]}`, with `fn_name` for a function."""
    inputs, outputs = value.get("inputs"), value.get("outputs")
    if not isinstance(inputs, Sequence) or not isinstance(outputs, Sequence) or isinstance(inputs, str):
        raise ValueError(f"`{name}` has no lists `inputs` and `outputs`")
    if len(inputs) != len(outputs) or not inputs:
        raise ValueError(f"`{name}` has {len(inputs)} inputs and {len(outputs)} outputs")
    function = value.get("fn_name")
    if not function:
        return CodeTests(stdin=tuple(StdinTest(_text(i), _text(o)) for i, o in zip(inputs, outputs, strict=True)))
    # As in APPS, a result may be wrapped in its own list.
    wrapped = all(isinstance(output, list) and len(output) == 1 for output in outputs)
    calls = tuple(
        _call(_arguments(given), output[0] if wrapped else output)
        for given, output in zip(inputs, outputs, strict=True)
    )
    return CodeTests(calls=calls, entry_point=str(function), usual_imports=True)


def _call(args: tuple[Any, ...], expected: Any) -> CallTest:
    return CallTest(args, expected, view=_LIST_VIEW if isinstance(expected, list) else "")


def _function_name(cases: Sequence[Mapping[str, Any]], columns: Mapping[str, Any]) -> str:
    metadata = columns.get("metadata")
    if isinstance(metadata, str) and metadata.strip():
        metadata = _parsed("metadata", metadata)
    for place in (*cases[:1], metadata, columns):
        if isinstance(place, Mapping):
            for key in ("fn_name", "func_name", "entry_point"):
                if isinstance(place.get(key), str) and place[key]:
                    return str(place[key])
    return ""


def _arguments(value: Any) -> tuple[Any, ...]:
    """A list of arguments, or text with one JSON value on each line."""
    if isinstance(value, str):
        return tuple(_json_value(line) for line in value.split("\n") if line.strip())
    return tuple(value) if isinstance(value, list) else (value,)


def _json_value(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return read_json(value)
    except (ValueError, RecursionError):
        return value


def _text(value: Any) -> str:
    """What a program reads or prints; a list holds its lines."""
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"an input or output is {type(value).__name__}, expected text")
