"""Run every experiment at full length: ``python -m experiments``; with ``--quick`` a short version of each.

The pictures in docs/ are not drawn anew: ``python -m experiments.pmwg_picture`` does that, and so do
``schedulers_picture``, ``erm_picture`` and ``learn_picture``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib import import_module

NAMES = (
    "pmwg_bounds",
    "pmwg_forgetting",
    "pmwg_synthetic",
    "pmwg_flights",
    "schedule_bounds",
    "schedulers_improver",
    "schedulers_flights",
    "series_flights",
    "rings_flights",
    "rings_renewal",
    "rings_baselines",
    "turbo_covid",
    "sums_flights",
    "compare_mechanisms",
    "erm_logistic",
    "erm_flights",
    "learn_streams",
    "learn_flights",
    "large_file",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them one after the other; 0 if all claims hold, else 1."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    failed = []
    for name in NAMES:
        began = time.perf_counter()
        print(f"\n-- experiments.{name}", flush=True)
        if import_module(f"experiments.{name}").main(given) != 0:
            failed.append(name)
        print(f"   {time.perf_counter() - began:.0f} seconds", flush=True)
    print(f"\n{len(NAMES)} experiments, {len(failed)} with broken claims {' '.join(failed)}".rstrip())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
