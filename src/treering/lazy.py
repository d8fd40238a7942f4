"""Public names that are imported from their modules on first use; functions that lower modules call by name; and
extras that may not be installed.

A package's ``__init__`` says in one table where its names live. Importing the package then costs nothing, and a module
whose requirements are missing is noticed only by who uses it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

Getter = Callable[[str], object]
"""The type of a module's ``__getattr__``."""

Lister = Callable[[], list[str]]
"""The type of a module's ``__dir__``."""


def attach(
    package: str, homes: Mapping[str, Sequence[str]], *, extra: tuple[str, str] | None = None
) -> tuple[Getter, Lister]:
    """A package's ``__getattr__`` and ``__dir__``.

    ``package`` is its ``__name__``. ``homes`` has the names that each of its modules offers; a module that offers none
    is itself public. ``extra``: what the modules need that may be missing, as the package to install and our extra that
    brings it.

    >>> import treering
    >>> treering.budget.Promise(1.0).budget.unit
    'epsilon'
    """
    home = {name: f"{package}.{module}" for module, names in homes.items() for name in names}
    modules = {module for module, names in homes.items() if not names}

    def get(name: str) -> object:
        if name not in home and name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if extra is not None and find_spec(extra[0]) is None:
            raise ImportError(missing(name, *extra))
        found = getattr(import_module(home[name]), name) if name in home else import_module(f"{package}.{name}")
        vars(sys.modules[package])[name] = found
        return found

    def names() -> list[str]:
        return sorted({*home, *modules, *({"__version__"} & vars(sys.modules[package]).keys())})

    return get, names


def provided(name: str) -> Callable[..., Any]:
    """The function that the package's front provides under this name, as "module:function" in ``_PROVIDED``.

    It is for modules that may call a function but must not import it: the texts of queries are written and read outside
    of what an auditor reads. The function's module is imported now, if it was not before.

    >>> provided("query_text").__module__
    'treering.domain.text'
    """
    found: Callable[..., Any] = loaded(vars(sys.modules["treering"])["_PROVIDED"][name])
    return found


def loaded(place: str) -> Any:
    """What ``place``, "module:name", stands for; its module is imported now, if it was not before."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def missing(what: str, package: str, extra: str) -> str:
    """The message for something that needs a package which is not installed.

    >>> missing("PrivateMedian", "sklearn", "learn")
    "PrivateMedian needs scikit-learn: pip install 'treering[learn]'"
    """
    return f"{what} needs {_PROJECTS.get(package, package)}: pip install 'treering[{extra}]'"


_PROJECTS = {"sklearn": "scikit-learn"}
"""The names of projects whose packages are called otherwise."""
