"""A pytest plugin: which functions of the mutable packages each test reaches, and how long it takes.

One callback for each call of a function of Python, and no more: functions are short here, so that whoever reaches a
function reaches nearly all of its lines. What a test file reaches while it is collected, all of its tests do. What runs
in other processes is not seen; that a test starts some is.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

FOLDER: Final = "MUTANTS_REACH"
"""The environment variable with the folder that each process writes what it saw into."""
STARTS: Final = {"os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"}


def scope_of(qualified: str) -> str:
    """The function or class that code belongs to, as `changes` names it: a lambda or comprehension to that around."""
    names = []
    for name in qualified.replace(".<locals>", "").split("."):
        if name.startswith("<"):
            break
        names.append(name)
    return ".".join(names)


class Reach:
    """What each test reached, and each file while it was collected."""

    def __init__(self, source: Path) -> None:
        self.source = f"{source}{os.sep}"
        self.tests: dict[str, dict[str, Any]] = {}
        self.collected: dict[str, list[list[str]]] = {}
        self._files: dict[str, str] = {}
        self._seen: set[tuple[str, str]] = set()
        self._started = False

    def start(self) -> None:
        """Begin anew, also if a test has put its own tracer in our place."""
        self._seen = set()
        self._started = False
        threading.settrace(self.trace)
        sys.settrace(self.trace)

    def trace(self, frame: FrameType, event: str, argument: object) -> None:
        """Called by Python for each call of a function."""
        code = frame.f_code
        file = self._files.get(code.co_filename)
        if file is None:
            name = code.co_filename
            file = name.removeprefix(self.source) if name.startswith(self.source) else ""
            self._files[name] = file
        if file:
            self._seen.add((file, code.co_qualname))

    def audit(self, event: str, arguments: object) -> None:
        """Called by Python for what its audit hooks see."""
        if event in STARTS:
            self._started = True

    def reached(self) -> list[list[str]]:
        """File and function of all that was reached since the start."""
        return [list(each) for each in sorted({(file, scope_of(name)) for file, name in self._seen})]

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, object, object]:
        """Watch a file while it is collected."""
        self.start()
        result = yield
        if isinstance(collector, pytest.Module):
            self.collected[collector.nodeid] = self.reached()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watch a test with what it sets up and tears down."""
        self.tests[item.nodeid] = {"seconds": 0.0, "passed": True}
        self.start()
        result = yield
        self.tests[item.nodeid] |= {"reached": self.reached(), "starts": self._started}
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember how long it took, and how it went."""
        if report.nodeid in self.tests:
            test = self.tests[report.nodeid]
            test["seconds"] += report.duration
            test["passed"] &= report.outcome == "passed"

    def pytest_sessionfinish(self) -> None:
        """Write it all down."""
        sys.settrace(None)
        found = {"tests": self.tests, "collected": self.collected}
        (Path(os.environ[FOLDER]) / f"{os.getpid()}.json").write_text(json.dumps(found))


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch, except in the process that only hands out tests."""
    if config.getoption("numprocesses", None) is None or "PYTEST_XDIST_WORKER" in os.environ:
        reach = Reach(config.rootpath / "src" / "treering")
        sys.addaudithook(reach.audit)
        config.pluginmanager.register(reach, "mutants-reach")
