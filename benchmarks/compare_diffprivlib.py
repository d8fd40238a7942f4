"""Late flights, by diffprivlib's static logistic regression and by ours: the same features, the same epsilon.

    python -m benchmarks.compare_diffprivlib [--seeds N]

The data are those of `experiments.erm_flights`: 336,776 flights, four attributes as vectors of zeros and ones, of norm
1 together. diffprivlib (objective perturbation, pure epsilon) sees all flights once, at the year's end. So does our
static `ERM`, with the same pure promise and with delta = 10^-6. `ERMG` has been releasing models since January, week by
week, under one (epsilon, delta) for all of them; its last one is shown. Without privacy: scikit-learn.

All settings are public. Those chosen with hindsight are chosen for both: diffprivlib's C, of which its best is shown
beside its default, and our radius (see `experiments.erm_flights`).

diffprivlib needs an older scikit-learn: this makes an environment for it, inside .venv, from
requirements/diffprivlib.txt.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

import treering as tr
from experiments.erm_flights import BETA, DELTA, EPSILON, QUICK_DAYS, RADIUS, Quality, batches, features, quality
from treering.arrays import Floats
from treering.boxes.erm import Model
from treering.domain.loss import Logistic
from treering.domain.problem import FEATURE_UNIT, CellFeatures

ROOT: Final = Path(__file__).resolve().parent.parent
ENVIRONMENT: Final = Path(sys.prefix) / "diffprivlib"
DEFAULT: Final = "1"
STRENGTHS: Final = ("0.0001", "0.001", "0.01", "0.1", DEFAULT, "100")
"""diffprivlib's C: the larger, the less it is regularised."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all of them and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="runs of each private one (default: 5)")
    seeds = parser.parse_args(arguments).seeds
    mapped = features()
    vectors, labels = mapped.grid / FEATURE_UNIT, mapped.labels
    counts = sum((np.bincount(cells, minlength=len(vectors)) for cells in batches(QUICK_DAYS)), np.int64(0))
    counts = np.asarray(counts)

    def show(name: str, models: Sequence[Floats]) -> None:
        print(row(name, [quality(vectors @ model, labels, counts) for model in models]), flush=True)

    print(f"{counts.sum():,} flights, epsilon = {EPSILON:g}, {seeds} runs of each\n")
    print("| model | AUC | accuracy |\n|---|---|---|")
    show("without privacy (scikit-learn)", [plain(vectors, labels, counts)])
    fits = diffprivlib_fits(vectors, labels, counts, seeds)
    best = max(fits, key=lambda strength: mean_auc(fits[strength], vectors, labels, counts))
    show("diffprivlib, static, C = 1 (its default), pure", fits[DEFAULT])
    show(f"diffprivlib, static, C = {best} (its best), pure", fits[best])
    show("ours, static, pure", [static(mapped, 0.0) for _ in range(seeds)])
    show("ours, static, delta = 1e-6", [static(mapped, DELTA) for _ in range(seeds)])
    show("ours, ERMG at the year's end, delta = 1e-6", [growing(mapped) for _ in range(seeds)])
    return 0


def row(name: str, found: Sequence[Quality]) -> str:
    """A line of the table: means, and the least of AUC."""
    aucs, accuracies = [each.auc for each in found], [each.accuracy for each in found]
    least = f" (least {min(aucs):.4f})" if len(found) > 1 else ""
    return f"| {name} | {np.mean(aucs):.4f}{least} | {np.mean(accuracies):.4f} |"


def mean_auc(models: Sequence[Floats], vectors: Floats, labels: Floats, counts: npt.NDArray[np.int64]) -> float:
    """What diffprivlib's C is chosen by."""
    return float(np.mean([quality(vectors @ model, labels, counts).auc for model in models]))


def plain(vectors: Floats, labels: Floats, counts: npt.NDArray[np.int64]) -> Floats:
    """Logistic regression without privacy."""
    seen = counts > 0
    model = LogisticRegression(C=1e6, max_iter=1000, fit_intercept=False)
    return np.asarray(model.fit(vectors[seen], labels[seen], sample_weight=counts[seen]).coef_[0])


def grown() -> Iterator[tr.GrowingDatabase]:
    """One database, after January and after each week."""
    db = tr.GrowingDatabase(features().schema)
    for cells in batches(QUICK_DAYS):
        db.append_cells(cells)
        yield db


def static(mapped: CellFeatures, delta: float) -> Floats:
    """One model of the whole year."""
    *_, db = grown()
    box = tr.ERM(Logistic(), radius=RADIUS, features=mapped)
    release = box.release(db, EPSILON, delta, BETA)
    assert isinstance(release, Model)
    return np.array(release.theta)


def growing(mapped: CellFeatures) -> Floats:
    """The last of many models."""
    learner: tr.ERMG | None = None
    for db in grown():
        if learner is None:
            learner = tr.ERMG(db, Logistic(), EPSILON, DELTA, BETA, radius=RADIUS, features=mapped)
        learner.update()
    assert learner is not None
    return np.array(learner.model.theta)


def diffprivlib_fits(
    vectors: Floats, labels: Floats, counts: npt.NDArray[np.int64], seeds: int
) -> dict[str, list[Floats]]:
    """Its coefficients, for each C."""
    python = ENVIRONMENT / "bin" / "python"
    uv = Path(sys.prefix) / "bin" / "uv"
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, ENVIRONMENT], check=True)
    requirements = ROOT / "requirements" / "diffprivlib.txt"
    subprocess.run([uv, "pip", "sync", "--quiet", "--python", python, "--require-hashes", requirements], check=True)
    with tempfile.TemporaryDirectory() as folder:
        entries = Path(folder) / "entries.npz"
        seen = counts > 0
        np.savez(entries, vectors=vectors[seen], labels=labels[seen], counts=counts[seen])
        script = Path(__file__).with_name("diffprivlib_fits.py")
        command: list[str | Path] = [python, script, entries, str(EPSILON), str(seeds), *STRENGTHS]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {strength: [np.array(each) for each in fits] for strength, fits in json.loads(done.stdout).items()}


if __name__ == "__main__":
    sys.exit(main())
