"""The language of conditions: comparisons, arithmetic, and/or/not over metric names, with a third truth value.

A metric the trace cannot tell is unknown; what depends on it is unknown, unless the rest decides alone (`False and
unknown` is False). Nothing is ever evaluated as Python: the syntax tree is walked and all else is refused.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from fairlead.explain.analysis.metric_docs import Value

Kind = Literal["number", "word", "truth", "any"]
"""What a part of a condition is. `any` is a name whose kind was not given."""

MAX_LENGTH = 2000
MAX_DEPTH = 40
_LARGEST = 1e300

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "abs": abs}
_CALLED = {"truth": "a yes or no", "number": "a number", "word": "a word", "any": "anything"}


class ConditionError(ValueError):
    """The text is not of the language; the message says where."""


@dataclass(frozen=True)
class Condition:
    """A parsed condition. `names` are the metrics it uses."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    def evaluate(self, metrics: Mapping[str, Value]) -> Value:
        """The value under these metrics; None is unknown. Never raises: dividing by zero, a number that is not finite
        and a value of another kind than the condition needs are unknown, too."""
        return _value(self.tree, metrics)

    def holds(self, metrics: Mapping[str, Value]) -> bool | None:
        """Whether it is true; None when that is unknown."""
        return _truth(self.evaluate(metrics))

    def list_unknown(self, metrics: Mapping[str, Value]) -> list[str]:
        """Metrics it needs that are unknown."""
        return sorted(name for name in self.names if _finite(metrics.get(name)) is None)


@dataclass
class _Scope:
    kinds: Mapping[str, Kind] | None
    names: set[str] = field(default_factory=set)

    def kind_of(self, name: str) -> Kind:
        self.names.add(name)
        if self.kinds is None:
            return "any"
        if name not in self.kinds:
            from difflib import get_close_matches

            close = get_close_matches(name, self.kinds, 1)
            raise ConditionError(f"no metric is called {name!r}" + (f", but there is {close[0]!r}" if close else ""))
        return self.kinds[name]


def parse_condition(text: str, kinds: Mapping[str, Kind] | None = None) -> Condition:
    """Parse; with `kinds` (name → kind of every metric) also check that names exist and kinds fit. Raises
    ConditionError."""
    if len(text) > MAX_LENGTH:
        raise ConditionError(f"longer than {MAX_LENGTH} characters")
    if "#" in text:
        raise ConditionError("holds a #: remarks go above it, outside the quotes")
    scope = _Scope(kinds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's own remarks on odd literals; what is odd is refused below
            tree = ast.parse(" ".join(text.split()), mode="eval").body
        kind = _kind(tree, scope, 0)
    except (SyntaxError, MemoryError) as fault:
        raise ConditionError(f"not an expression: {_short(text)}") from fault
    except RecursionError as fault:
        raise ConditionError(f"nested deeper than {MAX_DEPTH} levels") from fault
    except ValueError as fault:
        raise fault if isinstance(fault, ConditionError) else ConditionError(f"not an expression: {fault}") from fault
    if kind not in ("truth", "any"):
        raise ConditionError(f"is {_CALLED[kind]}, where a comparison is needed: {_short(text)}")
    return Condition(text, tree, frozenset(scope.names))


@lru_cache(maxsize=1024)
def compile_condition(text: str) -> Condition:
    """A condition that was checked when its rule was loaded."""
    return parse_condition(text)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else text[:57] + "...")


# -- checking ----------------------------------------------------------------------------------------------------------


def _kind(node: ast.expr, scope: _Scope, depth: int) -> Kind:
    if depth > MAX_DEPTH:
        raise ConditionError(f"nested deeper than {MAX_DEPTH} levels")
    match node:
        case ast.Name(id=name):
            return scope.kind_of(name)
        case ast.Constant(value=bool()):
            return "truth"
        case ast.Constant(value=str()):
            return "word"
        case ast.Constant(value=int() | float() as value):
            if not abs(value) <= _LARGEST:
                raise ConditionError(f"a number beyond {_LARGEST:g}")
            return "number"
        case ast.BoolOp(values=parts):
            return _all(parts, "truth", scope, depth)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _all([operand], "truth", scope, depth)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _all([operand], "number", scope, depth)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _all([left, right], "number", scope, depth)
        case ast.Compare():
            return _comparison(node, scope, depth)
        case ast.Call(func=ast.Name(id="known"), args=[ast.Name(id=name)], keywords=[]):
            scope.kind_of(name)
            return "truth"
        case ast.Call(func=ast.Name(id="min" | "max"), args=[_, _, *_] as parts, keywords=[]):
            return _all(parts, "number", scope, depth)
        case ast.Call(func=ast.Name(id="abs"), args=[_] as parts, keywords=[]):
            return _all(parts, "number", scope, depth)
    raise ConditionError(f"not allowed in a condition: {_short(ast.unparse(node))}")


def _all(parts: list[ast.expr], wanted: Kind, scope: _Scope, depth: int) -> Kind:
    for part in parts:
        kind = _kind(part, scope, depth + 1)
        if kind not in (wanted, "any"):
            raise ConditionError(f"{_short(ast.unparse(part))} is {_CALLED[kind]}, not {_CALLED[wanted]}")
    return wanted


def _comparison(node: ast.Compare, scope: _Scope, depth: int) -> Kind:
    left = _kind(node.left, scope, depth + 1)
    for op, part in zip(node.ops, node.comparators, strict=True):
        if isinstance(op, ast.In | ast.NotIn):
            if len(node.ops) > 1 or not isinstance(part, ast.Tuple | ast.List) or not part.elts:
                raise ConditionError(f"`in` needs a list, as in ('N-1', 'N-M'): {_short(ast.unparse(node))}")
            if not all(isinstance(item, ast.Constant) for item in part.elts):
                raise ConditionError(f"only fixed values may be listed: {_short(ast.unparse(part))}")
            others = [_kind(item, scope, depth + 1) for item in part.elts]
        elif type(op) in _COMPARE:
            others = [_kind(part, scope, depth + 1)]
        else:
            raise ConditionError(f"comparison not allowed: {_short(ast.unparse(node))}")
        for kind in others:
            if "any" not in (kind, left) and kind != left:
                raise ConditionError(f"{_short(ast.unparse(node))} compares {_CALLED[left]} with {_CALLED[kind]}")
            if isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) and {kind, left} & {"word", "truth"}:
                raise ConditionError(f"{_short(ast.unparse(node))}: only numbers are more or less")
            left = kind
    return "truth"


# -- evaluating --------------------------------------------------------------------------------------------------------


def _value(node: ast.expr, metrics: Mapping[str, Value]) -> Value:
    match node:
        case ast.Name(id=name):
            return _finite(metrics.get(name))
        case ast.Constant(value=value):
            return value  # type: ignore[return-value]
        case ast.BoolOp(op=op, values=parts):
            return _both([_truth(_value(p, metrics)) for p in parts], deciding=isinstance(op, ast.Or))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _truth(_value(operand, metrics))
            return None if inner is None else not inner
        case ast.UnaryOp(operand=operand):
            return _computed(operator.neg, [_value(operand, metrics)])
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(_ARITHMETIC[type(op)], [_value(left, metrics), _value(right, metrics)])
        case ast.Compare():
            return _compared(node, metrics)
        case ast.Call(func=ast.Name(id="known"), args=[ast.Name(id=name)]):
            return _finite(metrics.get(name)) is not None
        case ast.Call(func=ast.Name(id=function), args=parts):
            return _computed(_FUNCTIONS[function], [_value(p, metrics) for p in parts])
    raise AssertionError(f"unchecked node {ast.dump(node)}")


def _finite(value: Value) -> Value:
    """NaN and infinities are no knowledge."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _truth(value: Value) -> bool | None:
    return None if value is None or isinstance(value, str) else bool(value)


def _both(values: list[bool | None], *, deciding: bool) -> bool | None:
    """Three-valued and/or: a part equal to `deciding` decides, else an unknown part makes it unknown."""
    if deciding in values:
        return deciding
    return None if None in values else not deciding


def _computed(function: Callable[..., float], parts: list[Value]) -> Value:
    if any(p is None or isinstance(p, str) for p in parts):
        return None
    try:
        return _finite(function(*parts))
    except (ZeroDivisionError, OverflowError):
        return None


def _compared(node: ast.Compare, metrics: Mapping[str, Value]) -> bool | None:
    left = _value(node.left, metrics)
    results: list[bool | None] = []
    for op, part in zip(node.ops, node.comparators, strict=True):
        if isinstance(part, ast.Tuple | ast.List):
            inside = left in [_value(m, metrics) for m in part.elts]
            results.append(None if left is None else inside is isinstance(op, ast.In))
            continue
        right = _value(part, metrics)
        if left is None or right is None or isinstance(left, str) != isinstance(right, str):
            results.append(None)
        else:
            results.append(bool(_COMPARE[type(op)](left, right)))
        left = right
    return _both(results, deciding=False)
