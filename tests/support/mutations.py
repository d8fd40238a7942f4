"""Statements with something wrong in them: what is typed wrongly, cut off, pasted twice, or meant for another table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

_WORDS = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|\d+\.\d+|\w+|\s+|[<>=!|:/]+|.", re.DOTALL)
_ODD = (
    *("", "(", ")", ",", ";", "'", '"', "`", "[", "--", "/*", "*", "%", "::", "\\", "\0", "é", "🛫", "1e400", "-1"),
    *("NULL", "DISTINCT", "OVER ()", "UNION", "GROUP BY", "LIMIT -1", "LIMIT 1e9", "WHERE", "HAVING", "JOIN flights"),
    *("(SELECT 1)", "CASE", "END", "IN ()", "FILTER (WHERE cancelled)", "QUALIFY 1 = 1", "WITH x AS", "EXPLAIN"),
    *("/ 0", "CAST(NULL AS INT)", "INTERVAL 1 DAY", "'2013-02-30'", "month", "dep_delay", "time_hour", "$1", "x.y.z"),
)
_ALIKE = (
    ("origin", "carrier", "month", "day", "hour", "weekday", "dep_delay", "distance", "cancelled", "time_hour", "dest"),
    (
        "COUNT",
        "SUM",
        "AVG",
        "MIN",
        "MAX",
        "MEDIAN",
        "STDDEV",
        "UPPER",
        "ABS",
        "DATE",
        "YEAR",
        "HOUR",
        "COALESCE",
        "LAG",
    ),
    ("=", "<", "<=", ">", ">=", "<>", "LIKE", "IN", "+", "-", "*", "/", "||", "AND", "OR", "IS"),
    ("0", "1", "2", "7", "12", "60", "61", "240", "0.5", "-1", "2013", "99999999999999999999", "1e308", "NULL", "TRUE"),
    ("'JFK'", "'UA'", "''", "'2013-07-01'", "'2013-13-01'", "'%'", "'late'", "DATE '2013-07-01'", "INTERVAL '1 day'"),
    ("day", "week", "month", "quarter", "year", "hour", "minute", "dow", "epoch", "century"),
)
"""Words that may stand where another of the same line stands."""


def mutations(statements: Sequence[str], number: int, seed: int) -> Iterator[str]:
    """So many statements, each with one to three changes."""
    generator = np.random.default_rng(seed)
    pieces = [_WORDS.findall(each) for each in statements]
    for _ in range(number):
        words = list(pieces[generator.integers(len(pieces))])
        for _ in range(generator.integers(1, 4)):
            change = _swapped if generator.random() < 0.7 else _broken
            words = change(words, pieces[generator.integers(len(pieces))], generator)
        yield "".join(words)


def _swapped(words: list[str], others: list[str], generator: np.random.Generator) -> list[str]:
    """A word replaced by another that could stand there."""
    fitting = [(place, alike) for place, word in enumerate(words) for alike in _ALIKE if word.strip('"[]`') in alike]
    if not fitting:
        return _broken(words, others, generator)
    place, alike = fitting[int(generator.integers(len(fitting)))]
    return [*words[:place], alike[generator.integers(len(alike))], *words[place + 1 :]]


def _broken(words: list[str], others: list[str], generator: np.random.Generator) -> list[str]:
    """A piece left out, put in, doubled, turned round, or taken from another statement."""
    place = int(generator.integers(len(words) + 1))
    end = min(len(words), place + int(generator.integers(1, 5)))
    odd = f" {_ODD[generator.integers(len(_ODD))]} "
    return [
        [*words[:place], *words[end:]],
        [*words[:place], odd, *words[place:]],
        [*words[:place], odd, *words[place + 1 :]],
        [*words[:end], *words[place:]],
        [*words[:place], *others[place:]],
        [*words[:place], *words[place:end][::-1], *words[end:]],
        words[:end] or words,
    ][int(generator.integers(7))]
