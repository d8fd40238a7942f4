"""What docs/peers.md says in numbers beside the map: counts kept current, Turbo's workload, learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.record import Row, column, where
from experiments.results_page import table

SETTINGS: Final = {
    "static, uniform": "one block, 70,000 questions, uniform",
    "static, Zipf": "one block, 70,000 questions, Zipf",
    "streaming, a block": "50 blocks, 300,000 questions about the latest 1 to 50, a block",
}
MODELS: Final = {
    "without privacy": "without privacy",
    "treering": "treering, δ = 10⁻⁶",
    "diffprivlib, static": "diffprivlib, static, pure",
    "diffprivlib at doublings, told": "diffprivlib at doublings, told, pure",
}


def continual(rows: Sequence[Row]) -> str:
    """Counts kept current, beside jax-privacy's."""
    lines = []
    for row in rows:
        measured = f" (measured: {row['treering_measured']})" if row["treering_measured"] else ""
        told, own = row["jax_privacy_told"], row["treering_untold"] + measured
        lines.append([f"{int(row['batches']):,}", told, own, f"{float(row['ratio']):.2f}"])
    return table(["T", "jax-privacy, told T", "treering, untold", "ratio"], lines)


def workload(rows: Sequence[Row], policies: Sequence[Row]) -> str:
    """Turbo's workload: who needs which epsilon, the largest errors, and what Turbo's policy spent over our noise."""
    lines = []
    for row in rows:
        spent = where(policies, setting=row["setting"])
        own = [f"{float(spent[0][name]):.3g}" for name in ("cache_spent", "policy_spent")] if spent else ["–", "–"]
        needed = f"{float(row['epsilon']):.3g}", f"1/{float(row['ratio']):.0f}", f"`{row['mechanism']}`"
        theirs = f"{float(row['exact_cache']):g}", own[0], f"{float(row['turbo']):g}", own[1]
        lines.append([SETTINGS[row["setting"]], *theirs, *needed, f"{float(row['largest_error']):.3f}"])
    heads = ["setting", "exact cache", "its policy here", "Turbo", "its policy here", "treering", "of Turbo's", "by"]
    return table([*heads, "largest error"], lines)


def learning(rows: Sequence[Row]) -> str:
    """Accuracies on the streams, means over the runs of each."""
    lines = []
    for model, words in MODELS.items():
        end, life = (
            ", ".join(_means(where(rows, model=model), field)) or "–" for field in ("at_the_end", "over_its_life")
        )
        lines.append([words, end, life])
    return table(["accuracy on each stream", "at the end", "over the stream's life"], lines)


def _means(rows: Sequence[Row], field: str) -> list[str]:
    """The mean of each stream that has the field."""
    found = [column(where(rows, seed=seed), field) for seed in dict.fromkeys(row["seed"] for row in rows if row[field])]
    return [f"{sum(values) / len(values):.3f}" for values in found]
