"""The forms of an assert: which side is looked at, what it has to be, and how closely."""

import ast
from collections.abc import Callable
from dataclasses import dataclass

_ZERO = ast.Constant(0.0)
_BELOW, _ABOVE = (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`view` has to equal `expected` within the tolerances; all four are expressions of the test.

    identical: as `is` compares, so that 1 is not True.
    """

    view: ast.expr
    expected: ast.expr
    tolerance: ast.expr = _ZERO
    relative_tolerance: ast.expr = _ZERO
    identical: bool = False


def is_raises(call: ast.Call) -> bool:
    """`pytest.raises(ValueError)`, whatever it is to say."""
    return _name(call.func) == "raises" and len(call.args) == 1 and isinstance(call.args[0], (ast.Name, ast.Attribute))


def comparison_of(test: ast.expr, depends: Callable[[ast.expr], bool]) -> Comparison:
    """Any condition is a comparison: one of no known form has to come out true.

    `depends` says whether an expression depends on the function under test.
    """
    match test:
        case ast.Compare(left=left, ops=[operation], comparators=[right]):
            found = _compared(left, operation, right, depends)
            return found or Comparison(test, ast.Constant(True))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Comparison(_truth(operand), ast.Constant(False))
        case ast.Call(args=[left, right]) if _name(test.func) == "isclose" and depends(left) != depends(right):
            view, expected = (left, right) if depends(left) else (right, left)
            given = {keyword.arg: keyword.value for keyword in test.keywords}
            return Comparison(view, expected, given.get("abs_tol", _ZERO), given.get("rel_tol", ast.Constant(1e-9)))
    return Comparison(_truth(test), ast.Constant(True))


def _compared(
    left: ast.expr, operation: ast.cmpop, right: ast.expr, depends: Callable[[ast.expr], bool]
) -> Comparison | None:
    if isinstance(operation, (ast.Eq, ast.Is)) and depends(left) != depends(right):
        view, expected = (left, right) if depends(left) else (right, left)
        if isinstance(operation, ast.Is) and not _is_singleton(expected):
            return None
        return _approximate(view, expected) or Comparison(view, expected, identical=isinstance(operation, ast.Is))
    if isinstance(operation, _ABOVE):
        left, right, operation = right, left, ast.Lt()
    if isinstance(operation, _BELOW) and _name(getattr(left, "func", None)) in ("abs", "fabs") and not depends(right):
        match left:
            case ast.Call(args=[ast.BinOp(left=first, op=ast.Sub(), right=second)]) if depends(first) != depends(
                second
            ):
                view, expected = (first, second) if depends(first) else (second, first)
                return Comparison(view, expected, right)
            case ast.Call(args=[inside]):
                return Comparison(inside, _ZERO, right)
    return None


def _approximate(view: ast.expr, expected: ast.expr) -> Comparison | None:
    """`== pytest.approx(expected)`, with the defaults of pytest."""
    if not (isinstance(expected, ast.Call) and _name(expected.func) == "approx" and expected.args):
        return None
    given = {keyword.arg: keyword.value for keyword in expected.keywords}
    absolute, relative = given.get("abs", ast.Constant(1e-12)), given.get("rel", ast.Constant(1e-6))
    if "abs" in given and "rel" not in given:
        relative = _ZERO
    return Comparison(view, expected.args[0], absolute, relative)


def _truth(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("bool", ast.Load()), [node], [])


def _is_singleton(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


def _name(function: ast.expr | None) -> str:
    """The last part of a dotted name."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
