"""The language of conditions: comparisons, arithmetic, and/or/not over metric names, with a third truth value.

A metric the trace cannot tell is unknown; what depends on it is unknown, unless the rest decides alone (`False and
unknown` is False). Nothing is ever evaluated as Python: the syntax tree is walked and all else is refused.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fairlead.analysis.values import Value

_COMPARE: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # type: ignore[assignment]  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "abs": abs}
_MAX_LENGTH = 2000


class ConditionError(ValueError):
    """The text is not of the language; the message says where."""


@dataclass(frozen=True)
class Condition:
    """A parsed condition. `names` are the metrics it uses."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    def evaluate(self, metrics: Mapping[str, Value]) -> Value:
        """The value under these metrics; None is unknown. Division by zero is unknown, too."""
        return _value(self.tree, metrics)

    def unknown(self, metrics: Mapping[str, Value]) -> list[str]:
        """Metrics it needs that are unknown."""
        return sorted(name for name in self.names if metrics.get(name) is None)


def parse(text: str, known: Mapping[str, object] | frozenset[str] | None = None) -> Condition:
    """Parse; with `known` also check that every name is one of these. Raises ConditionError."""
    if len(text) > _MAX_LENGTH:
        raise ConditionError(f"longer than {_MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        raise ConditionError(f"not an expression: {text!r}") from fault
    names: set[str] = set()
    _check(tree, names)
    for name in sorted(names):
        if known is not None and name not in known:
            raise ConditionError(f"no metric is called {name!r}")
    return Condition(text, tree, frozenset(names))


def _check(node: ast.expr, names: set[str]) -> None:
    match node:
        case ast.Name(id=name):
            names.add(name)
        case ast.Constant(value=bool() | int() | float() | str()):
            pass
        case ast.BoolOp(values=parts):
            for part in parts:
                _check(part, names)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            _check(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            _check(left, names)
            _check(right, names)
        case ast.Compare(left=left, ops=ops, comparators=rest):
            _check(left, names)
            for part in rest:
                _check(part, names)
            if not all(type(op) in _COMPARE or isinstance(op, ast.In | ast.NotIn) for op in ops):
                raise ConditionError(f"comparison not allowed in {ast.unparse(node)!r}")
        case ast.Tuple(elts=parts):
            for part in parts:
                _check(part, names)
        case ast.Call(func=ast.Name(id="known"), args=[ast.Name(id=name)], keywords=[]):
            names.add(name)
        case ast.Call(func=ast.Name(id=function), args=parts, keywords=[]) if function in _FUNCTIONS and parts:
            for part in parts:
                _check(part, names)
        case _:
            raise ConditionError(f"not allowed in a condition: {ast.unparse(node)!r}")


def _value(node: ast.expr, metrics: Mapping[str, Value]) -> Value:  # noqa: PLR0911
    match node:
        case ast.Name(id=name):
            return metrics.get(name)
        case ast.Constant(value=value):
            return value  # type: ignore[return-value]
        case ast.BoolOp(op=op, values=parts):
            return _both([_value(p, metrics) for p in parts], deciding=isinstance(op, ast.Or))
        case ast.UnaryOp(op=op, operand=operand):
            inner = _value(operand, metrics)
            if inner is None:
                return None
            return (not inner) if isinstance(op, ast.Not) else -_number(inner)
        case ast.BinOp(left=left, op=op, right=right):
            return _arithmetic(_ARITHMETIC[type(op)], _value(left, metrics), _value(right, metrics))
        case ast.Compare():
            return _compare(node, metrics)
        case ast.Call(func=ast.Name(id="known"), args=[ast.Name(id=name)]):
            return metrics.get(name) is not None
        case ast.Call(func=ast.Name(id=function), args=parts):
            values = [_value(p, metrics) for p in parts]
            return None if any(v is None for v in values) else _FUNCTIONS[function](*map(_number, values))
    raise AssertionError(f"unchecked node {ast.dump(node)}")


def _both(values: list[Value], *, deciding: bool) -> bool | None:
    """Three-valued and/or: a part equal to `deciding` decides, else an unknown part makes it unknown."""
    if any(v is not None and bool(v) is deciding for v in values):
        return deciding
    return None if any(v is None for v in values) else not deciding


def _number(value: Value) -> float:
    if value is None or isinstance(value, str):
        raise ConditionError(f"{value!r} is not a number")
    return value


def _arithmetic(function: Callable[[float, float], float], left: Value, right: Value) -> float | None:
    if left is None or right is None:
        return None
    try:
        return function(_number(left), _number(right))
    except ZeroDivisionError:
        return None


def _compare(node: ast.Compare, metrics: Mapping[str, Value]) -> bool | None:
    left = _value(node.left, metrics)
    results: list[Value] = []
    for op, part in zip(node.ops, node.comparators, strict=True):
        if isinstance(op, ast.In | ast.NotIn):
            members = part.elts if isinstance(part, ast.Tuple) else [part]
            inside = left in [_value(m, metrics) for m in members]
            results.append(None if left is None else inside is isinstance(op, ast.In))
            continue
        right = _value(part, metrics)
        if left is None or right is None:
            results.append(None)
        elif isinstance(left, str) != isinstance(right, str):
            results.append(isinstance(op, ast.NotEq))
        else:
            results.append(_COMPARE[type(op)](left, right))
        left = right
    return _both(results, deciding=False)
