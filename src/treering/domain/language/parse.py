"""Predicates into queries: the predicates of SQL that cells can tell, and nothing else.

sqlglot finds the structure, which must consist of an allow-list of nodes. The meaning is SQL's, with its three truth
values: a row matches where the predicate is true, and a comparison with a missing value is neither true nor false. So
NOT is pushed down to the comparisons, never taken as a complement.

The result is first a *formula*, a tree of AND and OR over sets of one attribute's values, and then one query. Sets of
the same attribute are merged as soon as they meet, so ``x >= 0 AND x < 15`` is one set, and a long OR over one column
never becomes a table.

Every public method that takes a query also takes its text: `understand` reads either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from sqlglot import ParseError, Token, TokenType, exp
from sqlglot.parser import Parser

from treering.arrays import Flags
from treering.deadline import check as check_deadline, take
from treering.domain.attribute import Attribute, Categories, integers
from treering.domain.axis import refines
from treering.domain.calendar import DatePart, Dates
from treering.domain.language.condition import Finer, among, below, codes_of, missing, unless, values_of
from treering.domain.language.words import MAX_DEPTH, Column, Operand, Word, complaint, read
from treering.domain.query import MAX_TABLE, Query, too_large
from treering.domain.schema import Schema
from treering.domain.text import MAX_LENGTH, identifier
from treering.errors import QueryError

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "parse"]

Found = TypeVar("Found")

LETTER: Final = 64
"""About how many bytes a character of a text takes while it is read."""

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_MIRRORED: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
_ALLOWED: Final[dict[type[exp.Expr], frozenset[str]]] = {
    **dict.fromkeys((exp.And, exp.Or, exp.Is, *_COMPARISONS), frozenset({"this", "expression"})),
    exp.Not: frozenset({"this"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Null: frozenset(),
    exp.Column: frozenset({"this"}),
    exp.Identifier: frozenset({"this", "quoted"}),
}
"""The nodes that a predicate may consist of, each with the arguments that it may have."""


MOST_CUTS: Final = 1_024
"""The most bounds that a predicate may have within cells."""


def parse(text: str, schema: Schema, *, finer: bool = False) -> Query:
    """The query of a predicate about the attributes of ``schema``; with ``finer``, about a lens of it that tells every
    bound of a number, too.

    Formal Guarantees
        A row matches exactly where SQL finds the predicate true of its values, NaN being null and the values of an
        integer attribute being whole. What cells cannot tell (a bound inside a bin, unless ``finer``; one side of the
        values out of range) is refused. At most `MAX_LENGTH` characters and `MAX_DEPTH` nested parentheses and NOTs are
        read.

    >>> from treering.domain.attribute import bins, categories
    >>> schema = Schema({"origin": categories("EWR", "JFK"), "delay": bins([-1440, 0, 15, 60, 1440], missing=True)})
    >>> print(parse("NOT (origin <> 'JFK' OR delay < 15)", schema))
    origin = 'JFK' AND delay >= 15
    >>> print(parse("delay > 37.5", schema, finer=True))
    delay > 37.5
    """
    lens = lens_of(text, schema) if finer else schema
    try:
        query = Meaning(text, lens).query(understood(text, lens))
    except Finer as refusal:
        raise QueryError(str(refusal)) from None
    take(query.memory)
    return query


def lens_of(text: str, schema: Schema) -> Schema:
    """The schema with all bounds of numbers that a predicate names."""
    lens = schema
    for _ in range(4):  # The two bounds of a single number are found one after the other.
        cuts: Cuts = {}
        understood(text, lens, cuts)
        if not cuts:
            break
        if sum(map(len, cuts.values())) > MOST_CUTS:
            raise QueryError(f"the predicate compares with too many numbers: at most {MOST_CUTS:,} are told apart")
        lens = lens.cut(cuts)
    return lens


Cuts: TypeAlias = dict[str, list[Any]]
"""Bounds of attributes, by name."""


def understood(text: str, schema: Schema, cuts: Cuts | None = None) -> Formula:
    """The formula of a predicate: each of its comparisons can be told by itself, but for values out of range that share
    a cell. With ``cuts``, bounds within cells are listed there, and the formula means nothing if there are any."""
    if not isinstance(schema, Schema):
        raise QueryError(f"a predicate is about a Schema, not about {type(schema).__name__}")
    if not isinstance(text, str):
        raise QueryError(f"a predicate is a text, not {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise QueryError(f"the predicate has {len(text):,} characters; at most {MAX_LENGTH:,} are read")
    take(LETTER * len(text))
    try:
        reader = _Reader(text, schema, cuts)
        return reader.formula(reader.tree(read(text, schema)), negated=False)
    except RecursionError:
        raise QueryError("the predicate is nested too deeply to be read from here") from None


@dataclass(slots=True)
class _Reader:
    """Reads one predicate. In its trees every operand is a column whose name is a number: its index in ``operands``."""

    text: str
    schema: Schema
    cuts: Cuts | None = None
    operands: list[Operand | exp.Expr] = field(default_factory=list)

    # -- words → tree -------------------------------------------------------------------------------------------------

    def tree(self, words: Sequence[Word]) -> exp.Expr:
        """The structure of a predicate.

        sqlglot takes some twenty stack frames per parenthesis, so it is given one level at a time, the innermost first;
        a level in parentheses is then an operand of the level around it.
        """
        levels: list[list[Token]] = [[]]
        for word in words:
            level = levels[-1]
            last = level[-1].token_type if level else None
            if isinstance(word, Operand):
                level.append(self._name(word, word.start, word.end))
            elif word.token_type is TokenType.L_PAREN and last is not TokenType.IN:
                levels.append([])
            elif word.token_type is TokenType.R_PAREN and not _in_list(level):
                inner = self._structure(levels.pop())
                levels[-1].append(self._name(inner, word.start, word.end + 1))
            elif word.token_type is TokenType.NOT and last is TokenType.NOT:
                level.pop()
            else:
                level.append(word)
        return self._structure(levels[0])

    def _name(self, operand: Operand | exp.Expr, start: int, end: int) -> Token:
        self.operands.append(operand)
        return Token(TokenType.IDENTIFIER, str(len(self.operands) - 1), start=start, end=end - 1)

    def _structure(self, tokens: list[Token]) -> exp.Expr:
        """The tree that sqlglot makes of one level; any node that is not allowed is refused."""
        start, end = tokens[0].start, tokens[-1].end + 1
        trees: list[exp.Expr | None] = []
        try:
            trees = Parser(error_message_context=len(self.text)).parse_into(exp.Condition, tokens, self.text)
        except ParseError as error:
            start = len(error.errors[0]["start_context"])
            end = start + len(error.errors[0]["highlight"])
        if len(trees) != 1 or trees[0] is None or not all(_allowed(node) for node in trees[0].walk()):
            raise complaint(self.text, start, end, "this cannot be read here", syntax=True)
        return trees[0]

    # -- tree → formula -----------------------------------------------------------------------------------------------

    def formula(self, node: exp.Expr, *, negated: bool) -> Formula:
        """The meaning of a node, or of its negation."""
        inner = self._behind(node)
        while isinstance(inner, exp.Not):
            inner, negated = self._behind(inner.this), not negated
        if isinstance(inner, Operand):
            return self._constant(inner) != negated
        if isinstance(inner, exp.And | exp.Or):
            every = isinstance(inner, exp.And) != negated
            return join(every, (self.formula(part, negated=negated) for part in _chain(inner)))
        leaf = self._compared(inner) if isinstance(inner, _COMPARISONS) else self._tested(inner)
        if not negated:
            return leaf
        unknown = False if leaf.unknown is None else leaf.unknown
        return Leaf(leaf.position, leaf.attribute, unless(leaf.attribute, leaf.flags | unknown), leaf.word)

    def _behind(self, node: exp.Expr) -> Operand | exp.Expr:
        """The operand or parenthesised node that a numbered column stands for; other nodes stand for themselves."""
        while isinstance(node, exp.Column):
            inner = self.operands[int(node.name)]
            if isinstance(inner, Operand):
                return inner
            node = inner
        return node

    def _constant(self, operand: Operand) -> bool:
        if isinstance(operand.value, bool):
            return operand.value
        alone = "a column" if isinstance(operand.value, Column) else "a value"
        raise self._complaint(operand, f"{alone} alone is no predicate: compare it", syntax=True)

    def _compared(self, node: exp.Expr) -> Leaf:
        """One of the six comparisons, with the column on either side."""
        left, right = self._operand(node.this), self._operand(node.expression)
        kind = type(node)
        if isinstance(right.value, Column) and not isinstance(left.value, Column):
            left, right, kind = right, left, _MIRRORED.get(kind, kind)
        column, attribute = self._column(left)
        check_deadline()
        if kind in (exp.EQ, exp.NEQ):
            flags = among(attribute, [self._codes(left, attribute, right)])
            return self._leaf(column, attribute, flags if kind is exp.EQ else unless(attribute, flags), right)
        self._check_ordered(left, attribute)
        flags = self._below(left, attribute, right, inclusive=kind in (exp.LTE, exp.GT))
        return self._leaf(column, attribute, flags if kind in (exp.LT, exp.LTE) else unless(attribute, flags), right)

    def _tested(self, node: exp.Expr) -> Leaf:
        """IS NULL, IN or BETWEEN."""
        left = self._operand(node.this)
        column, attribute = self._column(left)
        check_deadline()
        if isinstance(node, exp.Is):
            return self._leaf(column, attribute, missing(attribute), left)
        if isinstance(node, exp.In):
            codes = [self._codes(left, attribute, self._operand(each)) for each in node.expressions]
            return self._leaf(column, attribute, among(attribute, codes), left)
        self._check_ordered(left, attribute)
        low, high = self._operand(node.args["low"]), self._operand(node.args["high"])
        under = self._below(left, attribute, low, inclusive=False)
        upto = self._below(left, attribute, high, inclusive=True)
        return self._leaf(column, attribute, upto & unless(attribute, under), low)

    def _leaf(self, column: Column, asked: Attribute, flags: Flags, word: Operand) -> Leaf:
        """A set of a column's values. What EXTRACT gives is turned into dates; it is unknown outside their range."""
        name = self.schema.names[column.position]
        attribute = self.schema.attributes[name]
        if asked is attribute:
            return Leaf(column.position, attribute, flags, word)
        values = values_of(name, attribute, column.part)
        dated = np.zeros(attribute.size, dtype=np.bool_)
        dated[: attribute.regular] = flags[values - values.min()]
        dated[attribute.size - 1] = flags[-1]
        outside = np.arange(attribute.size) >= attribute.regular
        return Leaf(column.position, attribute, dated, word, outside)

    # -- operands -----------------------------------------------------------------------------------------------------

    def _operand(self, node: exp.Expr) -> Operand:
        inner = self._behind(node)
        if isinstance(inner, Operand):
            return inner
        first = next(each for each in inner.find_all(exp.Column, bfs=False))
        raise self._complaint(self._operand(first), "a comparison cannot be compared in turn", syntax=True)

    def _column(self, operand: Operand) -> tuple[Column, Attribute]:
        """A column, and the attribute that its comparisons are about: for EXTRACT, that of its integers."""
        column = operand.value
        if not isinstance(column, Column):
            raise self._complaint(operand, "a value can be compared with a column only", syntax=True)
        name = self.schema.names[column.position]
        attribute = self.schema.attributes[name]
        if column.unit and not isinstance(attribute, Dates):
            raise self._complaint(operand, f"{identifier(name)} has no dates that could be truncated")
        if not column.part or (isinstance(attribute, DatePart) and attribute.part == column.part):
            return column, attribute
        try:
            values = values_of(name, attribute, column.part)
        except QueryError as error:
            raise self._complaint(operand, str(error)) from None
        return column, integers(int(values.min()), int(values.max()), missing=True)

    def _below(self, left: Operand, attribute: Attribute, bound: Operand, *, inclusive: bool) -> Flags:
        """The values below a bound."""
        nothing = np.zeros(attribute.size, dtype=np.bool_)
        return self._or_cut(lambda: self._look_up(partial(below, inclusive=inclusive), left, attribute, bound), nothing)

    def _codes(self, left: Operand, attribute: Attribute, value: Operand) -> range:
        """The codes of a value."""
        return self._or_cut(lambda: self._look_up(codes_of, left, attribute, value), range(0))

    def _or_cut(self, find: Callable[[], Found], nothing: Found) -> Found:
        """What is found; ``nothing`` if that takes a bound within a cell, and cuts are listed: then it is."""
        try:
            return find()
        except Finer as finer:
            if self.cuts is None:
                raise
            self.cuts.setdefault(finer.name, []).append(finer.bound)
            return nothing

    def _look_up(self, find: Callable[..., Found], left: Operand, attribute: Attribute, operand: Operand) -> Found:
        column = left.value
        if isinstance(operand.value, Column) or not isinstance(column, Column):
            raise self._complaint(operand, "a column can be compared with values only", syntax=True)
        try:
            return find(self.schema.names[column.position], attribute, operand.value, unit=column.unit)
        except Finer as finer:
            problem = str(self._complaint(operand, str(finer)))
            raise Finer(problem, finer.name, finer.bound) from None
        except QueryError as error:
            raise self._complaint(operand, str(error)) from None

    def _check_ordered(self, column: Operand, attribute: Attribute) -> None:
        if isinstance(attribute, Categories):
            name = identifier(self.schema.names[self._column(column)[0].position])
            problem = f"the categories of {name} have no order: compare them by =, <>, IN, NOT IN or IS NULL"
            raise self._complaint(column, problem)

    def _complaint(self, operand: Operand, problem: str, *, syntax: bool = False) -> QueryError:
        return complaint(self.text, operand.start, operand.end, problem, syntax=syntax)


def _allowed(node: exp.Expr) -> bool:
    given = {name for name, value in node.args.items() if value not in (None, False, [])}
    return given <= _ALLOWED.get(type(node), frozenset()) and type(node) in _ALLOWED


def _in_list(level: Sequence[Token]) -> bool:
    """Whether a level ends inside a list after IN: it has no other parentheses, and a list's items are single words."""
    return len(level) > 1 and level[-2].token_type in (TokenType.L_PAREN, TokenType.COMMA)


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a AND b AND c …, which sqlglot nests to the left as deep as it is long."""
    parts: list[exp.Expr] = []
    rest = [node]
    while rest:
        part = rest.pop()
        if type(part) is type(node):
            rest += [part.expression, part.this]
        else:
            parts.append(part)
    return parts


# -- formulas: AND and OR over sets of one attribute's values ----------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A set of one attribute's codes, and the word that an error points at."""

    position: int
    attribute: Attribute
    flags: Flags
    word: Operand
    unknown: Flags | None = None
    """Codes for which it is neither true nor false, beside the missing one: they do not match its negation either."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The AND (``every``) or the OR of its parts: at most one leaf per attribute, and groups of the other kind."""

    every: bool
    leaves: tuple[Leaf, ...]
    groups: tuple[Group, ...]


Formula: TypeAlias = bool | Leaf | Group


def join(every: bool, parts: Iterable[Formula]) -> Formula:
    """The AND (or, unless ``every``, the OR) of formulas. Their sets are merged in place: they are used up."""
    leaves: dict[int, Leaf] = {}
    groups: list[Group] = []
    settled = False
    for part in parts:
        if isinstance(part, bool):
            # The remaining parts are read all the same, so that errors do not depend on the order of the parts.
            settled = settled or part != every
        elif isinstance(part, Leaf):
            _merge(every, leaves, part)
        elif part.every == every:
            groups += part.groups
            for leaf in part.leaves:
                _merge(every, leaves, leaf)
        else:
            groups.append(part)
    kept = [leaf for leaf in leaves.values() if not (leaf.flags.all() if every else not leaf.flags.any())]
    if settled or any(not leaf.flags.any() if every else leaf.flags.all() for leaf in kept):
        return not every
    if len(kept) + len(groups) == 1:
        return (kept + groups)[0]
    take(sum(leaf.flags.nbytes for leaf in kept))
    return Group(every, tuple(kept), tuple(groups)) if kept or groups else every


def _merge(every: bool, leaves: dict[int, Leaf], leaf: Leaf) -> None:
    known = leaves.get(leaf.position)
    if known is not None:
        (np.bitwise_and if every else np.bitwise_or)(known.flags, leaf.flags, out=known.flags)
        leaf = Leaf(leaf.position, leaf.attribute, known.flags, leaf.word)
    leaves[leaf.position] = leaf


@dataclass(frozen=True, slots=True)
class Meaning:
    """Turns formulas into queries; error messages point into the text."""

    text: str
    schema: Schema

    def query(self, formula: Formula) -> Query:
        """The query of a formula: a conjunction of sets if it is one, else a table."""
        if isinstance(formula, bool):
            return Query.all(self.schema) if formula else Query.none(self.schema)
        if isinstance(formula, Leaf):
            return self._conjunction((formula,))
        if formula.every and not formula.groups:
            return self._conjunction(formula.leaves)
        positions = tuple(sorted(_positions(formula)))
        if math.prod(self.schema.shape[position] for position in positions) <= MAX_TABLE:
            return self._from_table(formula, positions)
        # The sets of an AND need no table, and that of the rest may turn out to be a product of sets as well.
        named = set().union(*map(_positions, formula.groups))
        free = [leaf for leaf in formula.leaves if leaf.position not in named]
        if not formula.every or not free:
            raise too_large(self.schema, positions)
        bound = [leaf for leaf in formula.leaves if leaf.position in named]
        return self._conjunction(free) & self.query(join(True, [*bound, *formula.groups]))

    def _conjunction(self, leaves: Iterable[Leaf]) -> Query:
        return Query.conjunction(self.schema, {leaf.position: leaf.flags for leaf in leaves})

    def _from_table(self, group: Group, positions: tuple[int, ...]) -> Query:
        axes = {position: axis for axis, position in enumerate(positions)}
        shape = tuple(self.schema.shape[position] for position in positions)
        table = np.broadcast_to(self._table(group, axes), shape)
        names = [self.schema.names[position] for position in positions]
        return Query.weighted(self.schema, table, attributes=names, resolution=1)

    def _table(self, group: Group, axes: Mapping[int, int]) -> Flags:
        """The flags of a group over joint values, of length 1 along the attributes that it does not name."""
        combine = np.bitwise_and if group.every else np.bitwise_or
        # Sizes decrease along this list, so small tables are combined first and only one is ever large.
        tables: list[Flags] = []
        for table in self._parts(group, axes):
            merged = table
            while tables and tables[-1].size <= merged.size:
                merged = combine(tables.pop(), merged)
            tables.append(merged)
        return reduce(combine, reversed(tables))

    def _parts(self, group: Group, axes: Mapping[int, int]) -> Iterator[Flags]:
        for leaf in group.leaves:
            shape = [1] * len(axes)
            shape[axes[leaf.position]] = leaf.attribute.size
            yield leaf.flags.reshape(shape)
        for each in group.groups:
            yield self._table(each, axes)


def _positions(group: Group) -> set[int]:
    return {leaf.position for leaf in group.leaves}.union(*map(_positions, group.groups))


# -- a query, or its text ----------------------------------------------------------------------------------------------


Question: TypeAlias = Query | str
"""A query, or a predicate's text."""


def understand(question: Question, schema: Schema, *, finer: bool = False) -> Query:
    """The query that a question means; it must be about this schema, or, with ``finer``, about a lens of it."""
    if isinstance(question, str):
        return parse(question, schema, finer=finer)
    if not isinstance(question, Query):
        raise QueryError(f"a query is asked as a Query or as its text, not as {type(question).__name__}")
    if question.schema == schema or (finer and refines(question.schema, schema)):
        return question
    if refines(schema, question.schema):  # It was made for an earlier version.
        return question.under(schema)
    if refines(question.schema, schema):
        return question.seen_by(schema)
    raise QueryError("the query is about another schema than this database")


def understand_all(questions: Iterable[Question], schema: Schema, *, finer: bool = False) -> list[Query]:
    """`understand` for a batch; errors name the position of the question."""
    if isinstance(questions, str):
        raise QueryError("a batch is a list of queries, not one text")
    queries: list[Query] = []
    for position, question in enumerate(questions):
        # The usual case, without a call: a batch has thousands.
        if isinstance(question, Query) and question.schema is schema:
            queries.append(question)
            continue
        try:
            queries.append(understand(question, schema, finer=finer))
        except QueryError as error:
            raise QueryError(f"query {position}: {error}") from None
    return queries
