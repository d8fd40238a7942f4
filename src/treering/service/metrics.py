"""Counters for Prometheus: public quantities, and how the server itself does."""

from __future__ import annotations

import bisect
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper ends, in seconds, of the classes of latencies."""

KEPT: Final = 10_000
"""Minutes for which answers are counted apart: a week of them."""


class Metrics:
    """What was counted since the server began."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._latencies: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self.answers: Counter[str] = Counter()
        """Answers by kind; of SQL, statements as "sql"."""
        self._minutes: dict[int, Counter[str]] = {}
        self.charged = 0
        """Questions that cost something."""
        self.rows = 0
        """Rows taken in."""

    def saw(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        with self._lock:
            self._requests[method, route, status] += 1
            classes = self._latencies.setdefault(route, [0] * (len(BOUNDS) + 1))
            classes[bisect.bisect_left(BOUNDS, seconds)] += 1
            self._seconds[route] = self._seconds.get(route, 0.0) + seconds

    def asked(self, kinds: Mapping[str, int], cost: float) -> None:
        """A question was answered."""
        with self._lock:
            self.answers.update(kinds)
            self.charged += cost > 0
            self._minutes.setdefault(int(time.time() // 60), Counter()).update(kinds)
            while len(self._minutes) > KEPT:
                del self._minutes[next(iter(self._minutes))]

    def over_time(self) -> dict[int, dict[str, int]]:
        """Answers by kind, for each of the last minutes since 1970 in which there were any."""
        with self._lock:
            return {minute: dict(kinds) for minute, kinds in self._minutes.items()}

    def took(self, rows: int) -> None:
        """Rows were taken in."""
        with self._lock:
            self.rows += rows

    def text(self, status: Mapping[str, Any], listening: int) -> str:
        """All metrics in Prometheus' text format; ``status`` is the vault's."""
        with self._lock:
            return "\n".join([*self._vault(status), *self._service(listening), ""])

    def _vault(self, status: Mapping[str, Any]) -> Iterator[str]:
        unit = status["unit"]
        yield from _gauge("treering_rows", "Rows in the vault.", status["size"])
        yield from _gauge("treering_ledger_entries", "Lines in the ledger.", status["entries"])
        for name, words in (("total", "may be spent"), ("spent", "was spent"), ("remaining", "is left")):
            yield from _gauge(f"treering_budget_{name}", f"What {words} on a row.", status[name], f'{{unit="{unit}"}}')

    def _service(self, listening: int) -> Iterator[str]:
        yield from _head("treering_answers_total", "Answers given, by kind; statements as sql.", "counter")
        yield from (f'treering_answers_total{{kind="{kind}"}} {count}' for kind, count in sorted(self.answers.items()))
        yield from _head("treering_charged_total", "Questions that cost something.", "counter")
        yield f"treering_charged_total {self.charged}"
        yield from _head("treering_rows_taken_total", "Rows taken in by this server.", "counter")
        yield f"treering_rows_taken_total {self.rows}"
        yield from _gauge("treering_listeners", "Open streams of events.", listening)
        yield from _head("treering_requests_total", "Requests answered.", "counter")
        for (method, route, code), count in sorted(self._requests.items()):
            yield f'treering_requests_total{{method="{method}",route="{route}",status="{code}"}} {count}'
        yield from _head("treering_request_seconds", "How long requests took.", "histogram")
        for route, classes in sorted(self._latencies.items()):
            yield from self._histogram(route, classes)

    def _histogram(self, route: str, classes: list[int]) -> Iterator[str]:
        below = 0
        for bound, count in zip([*map(str, BOUNDS), "+Inf"], classes, strict=True):
            below += count
            yield f'treering_request_seconds_bucket{{route="{route}",le="{bound}"}} {below}'
        yield f'treering_request_seconds_sum{{route="{route}"}} {self._seconds[route]:.6f}'
        yield f'treering_request_seconds_count{{route="{route}"}} {below}'


def _head(name: str, words: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"


def _gauge(name: str, words: str, value: float, labels: str = "") -> Iterator[str]:
    yield from _head(name, words, "gauge")
    yield f"{name}{labels} {value}"
