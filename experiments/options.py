"""What every experiment's command line takes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

QUICK_BETA: Final = 1e-8
"""The chance that a promise fails in a quick run: tests must not fail by chance, and this theorem says they do not."""


def options(description: str | None, arguments: Sequence[str] | None) -> argparse.Namespace:
    """``--quick`` for a short run, as `make test` does; ``--seed`` for the public randomness (data and queries)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a short run, with a smaller beta")
    parser.add_argument("--seed", type=int, default=1, help="of the data and the queries; private noise has none")
    return parser.parse_args(arguments)
