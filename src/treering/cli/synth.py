"""`treering synth` and `treering train`: synthetic rows, and a private model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.output import (
    JsonFlag,
    MechanismName,
    Output,
    VaultPath,
    count,
    number,
    progress,
    unit,
    writing,
)
from treering.cli.rows import check_output, write_table
from treering.words import counted

if TYPE_CHECKING:
    from treering.vault.vault import Vault

_SYNTH_EXAMPLES = """Examples:

\b
  treering synth flights.treering --rows 100000 --out synthetic.parquet
"""
_TRAIN_EXAMPLES = """Examples:

\b
  treering train flights.treering --target "delay >= 15" --features origin,month --share 0.3
  treering train flights.treering --name lateness          the newest model of one trained before
"""


VALIDATION = 0.1
"""The part of a ring's rows that is held out for tests, unless another is given."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=_SYNTH_EXAMPLES)(synth)
    app.command(epilog=_TRAIN_EXAMPLES)(train)


def synth(
    vault: VaultPath,
    rows: Annotated[int, typer.Option(parser=count, metavar="NUMBER", help="How many rows to draw.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to: .parquet or .csv.")],
    mechanism: MechanismName = None,
    seed: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="The same seed draws the same rows again.", min=0)
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Draw synthetic rows from what was released: free, and public.

    They are drawn independently, so their order says nothing. A vault of rings has none to draw from: one that was made
    with --mechanism pmwg or scheduler has.
    """
    check_output(out)
    if rows < 1:
        raise typer.BadParameter("--rows must be at least 1")
    from numpy.random import default_rng

    with writing(vault) as opened:
        table = opened.synthesize(rows, mechanism, default_rng(seed))
    write_table(table, out)
    plain = {"rows": table.num_rows, "columns": table.column_names, "out": str(out)}
    Output(as_json).result(plain, lambda shown: shown.line(f"{_in_words(rows)} in {out}.", "bold"))


def _in_words(rows: int) -> str:
    return "1 synthetic row is" if rows == 1 else f"{rows:,} synthetic rows are"


def train(
    vault: VaultPath,
    target: Annotated[
        str | None, typer.Option(metavar="PREDICATE", help="What to predict: which rows are positive.")
    ] = None,
    features: Annotated[str | None, typer.Option(metavar="A,B,...", help="The attributes to predict it from.")] = None,
    share: Annotated[
        float | None, typer.Option(parser=number, metavar="NUMBER", help="The model's share of the promise.")
    ] = None,
    rows: Annotated[
        str,
        typer.Option(metavar="WHICH", help='"newest": those since the model before. "all": all that ever came.'),
    ] = "newest",
    every: Annotated[
        float | None,
        typer.Option(
            parser=number, metavar="NUMBER", help="Train when rows have grown by this factor; 2 if not given."
        ),
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(parser=number, metavar="NUMBER", help="The part of rows held out to test it; 0.1 if not given."),
    ] = None,
    loss: Annotated[str, typer.Option(metavar="NAME", help='"logistic", "robust", "hinge" or "squared".')] = "logistic",
    radius: Annotated[
        float | None, typer.Option(parser=number, metavar="NUMBER", help="The largest norm that the model may have.")
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What the model is called in the vault.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train a model that is kept up as rows arrive.

    It has its own share of the promise, if need be of what rings have not used of theirs. The first time, give
    --target, --features and --share. Later `treering train VAULT --name NAME` shows the newest model, which costs only
    what its share has set aside.

    It learns from the newest rows, and each row pays for one model. A tenth of these rows, at most 10,000, is held out:
    they tell how good the model is, and how good the one before still is.
    """
    with writing(vault) as opened:
        before = opened.status()
        learners = [each["name"] for each in before["mechanisms"] if each["kind"] in ("ermrings", "ermg")]
        name = name or next(iter(learners), "model")
        if name not in learners:
            options = _options(rows, every, validation)
            _add(opened, target, features, share, **options, loss=loss, radius=radius, name=name)
        elif target is not None or features is not None or share is not None:
            raise typer.BadParameter(f"{name} was trained before: leave out --target, --features and --share")
        with progress(f"training {name}") as advance:
            model = opened.model(name, progress=lambda done, _: advance(round(1_000 * done), 1_000))
        after = opened.status()
        spec = next(each for each in after["mechanisms"] if each["name"] == name)
        weights = _weights(opened, spec, model)
    plain = {
        "name": name,
        "target": spec["options"]["target"],
        "size": model.size,
        "rows": list(model.rows),
        "weights": weights,
        "excess_risk_bound": spec["model"]["excess_risk_bound"],
        "quality": spec.get("quality"),
        "quality_later": spec.get("quality_later"),
        "cost": max(0.0, after["spent"] - before["spent"]),
        "remaining": spec["remaining"],
        "unit": after["unit"],
        "shares": {each["name"]: each["share"] for each in after["mechanisms"]},
    }
    Output(as_json).result(plain, lambda out: show_model(out, plain))


def _options(rows: str, every: float | None, validation: float | None) -> dict[str, Any]:
    """What a learner of these rows takes."""
    if rows == "newest":
        return {"kind": "ermrings", "every": every, "validation": VALIDATION if validation is None else validation}
    if rows != "all":
        raise typer.BadParameter(f"--rows must be newest or all, not {rows}")
    if every is not None or validation is not None:
        raise typer.BadParameter("--every and --validation are for --rows newest")
    return {"kind": "ermg"}


def _add(
    vault: Vault, target: str | None, features: str | None, share: float | None, kind: str, **options: Any
) -> None:
    if target is None or features is None or share is None:
        raise typer.BadParameter("a new model needs --target, --features and --share")
    named = [each.strip() for each in features.split(",") if each.strip()]
    vault.add(kind, share, target=target, features=named, **options)


def _weights(vault: Vault, spec: dict[str, Any], model: Any) -> dict[str, float]:
    from treering.domain.problem import CellFeatures

    made = CellFeatures.one_hot(vault.schema, spec["options"]["features"], spec["options"]["target"])
    weights: dict[str, float] = model.weights(made)
    return weights


def _tested(quality: dict[str, Any] | None, later: dict[str, Any] | None) -> Iterator[str]:
    """How good the latest model is, and the one before, on rows that they were not learnt from."""
    if quality is None:
        yield "It was not tested."
    else:
        yield f"Tested on {counted(quality['rows'], 'row')} that were held out: {_figures(quality)}."
    if later is not None:
        _, last = later["trained"]
        yield f"On the same rows, the model before, of the rows up to {last:,}: {_figures(later)}."


def _figures(quality: dict[str, Any]) -> str:
    """Accuracy and AUC with their margins."""
    told = f"accuracy {quality['accuracy']:.1%} ± {quality['accuracy_margin']:.1%}"
    if quality["auc"] is None:
        return f"{told}; too few rows to tell the AUC"
    return f"{told}, AUC {quality['auc']:.3f} ± {quality['auc_margin']:.3f}"


def show_model(out: Output, plain: dict[str, Any]) -> None:
    """Show the model: what each value adds, its error, and its cost."""
    first, last = plain["rows"]
    which = counted(last, "row") if first == 0 else f"the rows {first + 1:,} to {last:,}"
    out.line(f"{plain['name']}: when is {plain['target']}? Trained on {which}.", "bold")
    ordered = sorted(plain["weights"].items(), key=lambda item: -abs(item[1]))
    rows = [[words, f"{weight:+.3f}"] for words, weight in ordered[:20]]
    out.table(["if", "adds"], rows, right=(1,))
    if len(ordered) > len(rows):
        out.line(f"and {len(ordered) - len(rows):,} more (--json has all).", "dim")
    out.line("A row is predicted to match where the sum, the intercept included, is above 0.", "dim")
    out.line(f"Its risk is within {plain['excess_risk_bound']:.4g} of the best such model's, on those rows.")
    for line in _tested(plain["quality"], plain["quality_later"]):
        out.line(line)
    paid = "Free" if plain["cost"] == 0 else f"Cost {unit(plain['unit'], plain['cost'])}"
    out.line(f"{paid}; {unit(plain['unit'], plain['remaining'])} of its share left.", "dim")
    shares = ", ".join(f"{name} {share:g}" for name, share in plain["shares"].items())
    out.line(f"Shares of the promise: {shares}.", "dim")
