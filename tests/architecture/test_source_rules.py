"""The rules about the source hold, and each of them can be broken."""

from __future__ import annotations

import pytest

from support.repository import ROOT, files
from support.rules import (
    MOST_LINES,
    Rule,
    Source,
    dynamic_imports,
    front_imports,
    insecure_randomness,
    opened_rows,
    prints,
    secret_randomness,
    suppressions,
    too_long,
    trusted_imports,
    undocumented,
)

RULES_OF_THE_PACKAGE: list[Rule] = [
    dynamic_imports,
    front_imports,
    insecure_randomness,
    opened_rows,
    prints,
    secret_randomness,
    too_long,
    trusted_imports,
    undocumented,
]
RULES_OF_ALL_CODE: list[Rule] = [suppressions, too_long]


def sources(*folders: str) -> list[Source]:
    python = [path for path in files() if path.suffix == ".py"]
    named = [(path.relative_to(ROOT), path) for path in python]
    return [Source(name.as_posix(), path.read_text()) for name, path in named if name.parts[0] in folders]


@pytest.mark.parametrize("rule", RULES_OF_THE_PACKAGE)
def test_the_package_keeps_the_rule(rule: Rule) -> None:
    package = sources("src")
    assert len(package) > 20
    assert [complaint for source in package for complaint in rule(source)] == []


@pytest.mark.parametrize("rule", RULES_OF_ALL_CODE)
def test_all_code_keeps_the_rule(rule: Rule) -> None:
    code = sources("src", "tests", "benchmarks", "examples", "experiments", "mutants")
    assert {source.path.split("/")[0] for source in code} >= {"src", "tests", "benchmarks", "experiments", "mutants"}
    assert [complaint for source in code for complaint in rule(source)] == []


MECHANISM = "src/treering/mechanisms/x.py"
TRUSTED = "src/treering/trusted/x.py"
BUDGET = "src/treering/budget/x.py"
VAULT = "src/treering/vault/x.py"
FRONT = "src/treering/__init__.py"
LEARN = "src/treering/learn/x.py"
OPENS = "from treering.trusted.store import features_of\n"
LONG = "x = 1\n" * (MOST_LINES + 1)


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (insecure_randomness, MECHANISM, "import random"),
        (insecure_randomness, "src/treering/cli/x.py", "from numpy.random import normal"),
        (insecure_randomness, MECHANISM, "from random import gauss"),
        (insecure_randomness, MECHANISM, "def f():\n    import random as chance"),
        (insecure_randomness, MECHANISM, "import numpy.random"),
        (insecure_randomness, MECHANISM, "import numpy.random as chance"),
        (insecure_randomness, MECHANISM, "from numpy import random"),
        (insecure_randomness, MECHANISM, "from numpy.random import default_rng"),
        (insecure_randomness, MECHANISM, "import numpy as np\nnp.random.default_rng()"),
        (insecure_randomness, MECHANISM, "import numpy as np\nnp.random.shuffle(x)"),
        (insecure_randomness, MECHANISM, "import numpy as np\nnp.random.Generator(np.random.PCG64())"),
        (insecure_randomness, MECHANISM, "import numpy as np\nchance = np.random\nchance.shuffle(x)"),
        (insecure_randomness, TRUSTED, "import numpy as np\ndef f(g: np.random.Generator) -> None: ..."),
        (insecure_randomness, BUDGET, "from numpy.random import Generator"),
        (insecure_randomness, VAULT, "import random"),
        (secret_randomness, MECHANISM, "import secrets"),
        (secret_randomness, MECHANISM, "from secrets import randbelow"),
        (secret_randomness, MECHANISM, "import os\nos.urandom(8)"),
        (secret_randomness, "src/treering/service/app.py", "import secrets"),
        (dynamic_imports, MECHANISM, "import importlib\nimportlib.import_module('treering.trusted')"),
        (dynamic_imports, MECHANISM, "from importlib import import_module"),
        (dynamic_imports, MECHANISM, "__import__('treering.trusted.kernel')"),
        (front_imports, MECHANISM, "import treering as tr"),
        (front_imports, MECHANISM, "from treering import GrowingDatabase"),
        (trusted_imports, TRUSTED, "from treering.theory import sparse"),
        (trusted_imports, TRUSTED, "import treering.mechanisms.sparse"),
        (trusted_imports, TRUSTED, "import treering"),
        (opened_rows, LEARN, "import numpy as np\ndef fit(self, X, y): np.asarray(X)"),
        (opened_rows, LEARN, "def fit(self, X, y): self._take(X[1:], y)"),
        (opened_rows, LEARN, "def fit(self, X, y): self._take(X, len(y))"),
        (opened_rows, LEARN, "def fit(self, X, y):\n    rows = X\n    rows.mean()"),
        (opened_rows, LEARN, "def fit(self, X, y): X.mean()"),
        (opened_rows, LEARN, OPENS + "def fit(self, X, y): self._take(features_of(X), y)"),
        (opened_rows, LEARN, "def partial_fit(self, X, y): self._rows_to_predict(X)"),
        (prints, MECHANISM, "print(1)"),
        (prints, MECHANISM, "show = print"),
        (too_long, MECHANISM, LONG),
        (too_long, "tests/unit/test_x.py", LONG),
        (suppressions, MECHANISM, "x = 1  # type: ignore[assignment]"),
        (suppressions, MECHANISM, "x = 1  # NOQA"),
        (suppressions, MECHANISM, "# TODO: more"),
        (undocumented, MECHANISM, "x = 1"),
        (undocumented, MECHANISM, '"""A module."""\ndef f(): ...'),
        (undocumented, MECHANISM, '"""A module."""\nclass C: ...'),
    ],
)
def test_a_breach_is_seen(rule: Rule, path: str, text: str) -> None:
    assert rule(Source(path, text))


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (insecure_randomness, MECHANISM, "import numpy as np\ndef f(g: np.random.Generator) -> None: g.integers(3)"),
        (insecure_randomness, MECHANISM, "from numpy.random import Generator\ndef f(g: Generator) -> None: ..."),
        (insecure_randomness, "src/treering/cli/x.py", "from numpy.random import default_rng\ndefault_rng(1)"),
        (insecure_randomness, TRUSTED, "import numpy as np\nrandom = np.zeros(3)"),
        (secret_randomness, TRUSTED, "import secrets\nsecrets.randbelow(3)"),
        (secret_randomness, "src/treering/service/auth.py", "import secrets"),
        (dynamic_imports, "src/treering/lazy.py", "from importlib import import_module"),
        (dynamic_imports, MECHANISM, "from importlib.util import find_spec"),
        (front_imports, FRONT, "from treering import audit"),
        (front_imports, MECHANISM, "from treering.domain.query import Query\nfrom treering.theory import sparse"),
        (
            trusted_imports,
            TRUSTED,
            "from treering.gate import Gate\nfrom treering.trusted.noise import draw\nimport numpy",
        ),
        (trusted_imports, MECHANISM, "from treering.theory import sparse"),
        (opened_rows, LEARN, "def fit(self, X, y):\n    self._take(X, y=y)\n    super().fit(X, y)"),
        (
            opened_rows,
            LEARN,
            "from treering.trusted.store import Samples\ndef _take(self, X, y): Samples(X, y, self.bounds)",
        ),
        (opened_rows, LEARN, OPENS + "def _rows_to_predict(self, X): return features_of(X).mean()"),
        (opened_rows, MECHANISM, "def fit(self, X, y): X.mean()"),
        (prints, MECHANISM, "'print(1)'  # print(1)"),
        (too_long, MECHANISM, "x = 1\n" * MOST_LINES),
        (too_long, MECHANISM, '"""A module."""\n\n# Why.\n' + "x = 1\n" * MOST_LINES + '"""What x is."""\n'),
        (suppressions, MECHANISM, "text = 'type: ignore, noqa, TODO'"),
        (undocumented, MECHANISM, '"""A module."""\ndef _f(): ...\nclass C:\n    """One."""'),
    ],
)
def test_what_is_allowed_is_not_complained_about(rule: Rule, path: str, text: str) -> None:
    assert rule(Source(path, text)) == []


def test_a_complaint_says_where() -> None:
    (complaint,) = prints(Source(MECHANISM, "x = 1\nprint(x)\n"))
    assert complaint == f"{MECHANISM}:2: print"
