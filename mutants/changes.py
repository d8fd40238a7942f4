"""The places of a source file that can be mutated, and the changes of each: small edits of the text, found in its AST.

What no test could or should notice is left alone: annotations, docstrings and texts, assertions (they are there for the
type checker), the words of an error, `strict` of `zip` (ruff wants it everywhere), decorators that only cache or
declare.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, tuple[str, ...]]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
ARITHMETIC: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
    ast.MatMult: ("@", "*"),
}
_PAIRS: Final = (("min", "max"), ("minimum", "maximum"), ("any", "all"), ("floor", "ceil"))
OPPOSITES: Final = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
IDLE_DECORATORS: Final = {"abstractmethod", "cache", "final", "lru_cache", "overload", "override", "runtime_checkable"}
"""Those without which everything means the same, if a little later."""


@dataclass(frozen=True, slots=True)
class Change:
    """One edit: the bytes from ``start`` to ``end`` of a file become ``new``."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere that can be changed: the function or class it is in, its line, and what it can become."""

    file: str
    scope: str
    at_import: bool
    """Whether it runs when the module is imported: it is in no function."""
    line: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A place with one of its changes, before and after in one line each."""

    place: Place
    change: Change
    before: str
    after: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is recognised by when lines have moved."""
        return self.place.file, self.place.scope, self.before, self.after


def mutant(text: str, place: Place, change: Change) -> Mutant:
    """The mutant, with the lines that differ."""
    source = text.encode()
    first = source.rfind(b"\n", 0, change.start) + 1
    after_last = source.find(b"\n", change.end)
    last = len(source) if after_last < 0 else after_last
    before = source[first:last].decode()
    after = (source[first : change.start] + change.new.encode() + source[change.end : last]).decode()
    return Mutant(place, change, " ".join(before.split()), " ".join(after.split()))


def applied(text: str, change: Change) -> str:
    """The text with the edit."""
    source = text.encode()
    return (source[: change.start] + change.new.encode() + source[change.end :]).decode()


def places(file: str, text: str) -> list[Place]:
    """Every place of a file, in the order of its text."""
    edits = _Edits(text)
    found = [
        Place(file, scope.name, scope.at_import, edits.line(changes[0]), changes)
        for scope, node in _nodes(ast.parse(text), _Scope("", True))
        for changes in _changes(node, edits)
    ]
    return sorted(found, key=lambda place: (place.changes[0].start, place.changes[0].end))


# -- the nodes that are looked at --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scope:
    name: str
    at_import: bool

    def within(self, node: Function | ast.ClassDef) -> _Scope:
        name = f"{self.name}.{node.name}" if self.name else node.name
        return _Scope(name, self.at_import and isinstance(node, ast.ClassDef))


def _nodes(node: ast.AST, scope: _Scope) -> Iterator[tuple[_Scope, ast.AST]]:
    """The node and all within it, each with where it runs."""
    yield scope, node
    for child in _outside(node):
        yield from _nodes(child, scope)
    if isinstance(node, Function | ast.ClassDef):
        for statement in node.body:
            yield from _nodes(statement, scope.within(node))


def _outside(node: ast.AST) -> Iterable[ast.AST]:
    """The children that run where the node itself stands, without those that are left alone."""
    match node:
        case ast.Assert() | ast.JoinedStr() | ast.Raise():
            return ()
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return node.orelse
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")) | ast.AnnAssign(value=None):
            return ()
        case ast.AnnAssign():
            return (node.value,) if node.value is not None else ()
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            defaults = [*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)]
            return [*defaults, node.body] if isinstance(node, ast.Lambda) else defaults
        case ast.ClassDef():
            return node.bases
        case ast.Call(func=ast.Name(id="cast")):
            return node.args[1:]
        case ast.keyword(arg="strict"):
            return ()
        case _:
            return ast.iter_child_nodes(node)


# -- what each of them can become --------------------------------------------------------------------------------------


class _Edits:
    """Edits of a text by the positions of its nodes."""

    def __init__(self, text: str) -> None:
        self._source = text.encode()
        self._lines = [0]
        for line in self._source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def line(self, change: Change) -> int:
        """The line an edit begins in, from one on."""
        return self._source.count(b"\n", 0, change.start) + 1

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def instead(self, node: ast.expr | ast.stmt, new: str) -> Change:
        """Something else for the whole node."""
        return Change(self.start(node), self.end(node), new)

    def negated(self, node: ast.expr) -> Change:
        return self.instead(node, f"not ({self._source[self.start(node) : self.end(node)].decode()})")

    def between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> Change:
        """Another operator between two operands."""
        at = self._source.index(old.encode(), self.end(left), self.start(right))
        return Change(at, at + len(old), new)

    def without_first(self, node: ast.expr, word: str) -> Change:
        start = self.start(node)
        return Change(start, start + len(word), "")

    def last(self, node: ast.expr, old: str, new: str) -> Change:
        end = self.end(node)
        return Change(end - len(old.encode()), end, new)

    def without_decorator(self, node: ast.expr) -> Change:
        return Change(self._source.rindex(b"@", 0, self.start(node)), self.end(node), "")


def _changes(node: ast.AST, edits: _Edits) -> Iterator[tuple[Change, ...]]:
    """The places at a node, each with its changes."""
    match node:
        case ast.stmt():
            yield from _changes_of_statement(node, edits)
        case ast.expr():
            yield from _changes_of_expression(node, edits)
        case ast.comprehension():
            yield from ((edits.negated(test),) for test in node.ifs if not _negatable_within(test))
        case _:
            return


def _changes_of_statement(node: ast.stmt, edits: _Edits) -> Iterator[tuple[Change, ...]]:
    if _droppable(node):
        yield (edits.instead(node, "pass"),)
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            loud = (each for each in node.decorator_list if _name(each) not in IDLE_DECORATORS)
            yield from ((edits.without_decorator(each),) for each in loud)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.If() | ast.While() if not _negatable_within(node.test):
            yield (edits.negated(node.test),)
        case ast.AugAssign():
            old, new = ARITHMETIC[type(node.op)]
            yield (edits.between(node.target, node.value, f"{old}=", f"{new}="),)
        case ast.Return() if node.value is not None and not isinstance(node.value, ast.Constant):
            yield (edits.instead(node.value, "None"),)
        case ast.Continue():
            yield (edits.instead(node, "break"),)
        case ast.Break():
            yield (edits.instead(node, "continue"),)


def _droppable(node: ast.stmt) -> bool:
    """Whether the rest is well formed without the statement: it gives no name its first value."""
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.AugAssign() | ast.Delete():
            return True
        case ast.Assign():
            return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
        case ast.AnnAssign():
            return node.value is not None and isinstance(node.target, ast.Attribute)
        case _:
            return False


def _changes_of_expression(node: ast.expr, edits: _Edits) -> Iterator[tuple[Change, ...]]:
    match node:
        case ast.Compare():
            for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                old, others = COMPARISONS[type(operator)]
                yield tuple(edits.between(left, right, old, new) for new in others)
        case ast.BinOp():
            yield (edits.between(node.left, node.right, *ARITHMETIC[type(node.op)]),)
        case ast.BoolOp():
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in pairwise(node.values):
                yield (edits.between(left, right, old, new),)
        case ast.UnaryOp(op=ast.Not()):
            yield (edits.without_first(node, "not"),)
        case ast.UnaryOp(op=ast.USub()):
            yield (edits.without_first(node, "-"),)
        case ast.IfExp() if not _negatable_within(node.test):
            yield (edits.negated(node.test),)
        case ast.Constant(value=bool() | int() | float()):
            yield tuple(edits.instead(node, new) for new in _other_constants(node.value))
        case ast.Call(func=ast.Name() | ast.Attribute()) if (old := _name(node.func)) in OPPOSITES:
            yield (edits.last(node.func, old, OPPOSITES[old]),)


def _other_constants(value: object) -> list[str]:
    match value:
        case bool():
            return [str(not value)]
        case int():
            return [str(value + 1), str(value - 1) if value else "(-1)"]
        case float():
            return [repr(value + 1)]
        case _:
            return []


def _negatable_within(test: ast.expr) -> bool:
    """Whether a condition has a place of its own that negates it."""
    return isinstance(test, ast.Compare | ast.Constant) or (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    )


def _name(node: ast.expr) -> str:
    """The last word of what is called."""
    match node:
        case ast.Call():
            return _name(node.func)
        case ast.Attribute():
            return node.attr
        case ast.Name():
            return node.id
        case _:
            return ""
