"""`treering audit`: statistical attacks on the mechanisms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.output import OTHER, JsonFlag, Output, progress

if TYPE_CHECKING:
    from treering.audit.attacks import Attack
    from treering.audit.bounds import Audit

_EXAMPLES = """Examples:

\b
  treering audit                          every mechanism: a minute or two
  treering audit ATG PMWG --samples 5000  two of them, more thoroughly
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EXAMPLES)(audit)


def audit(
    mechanisms: Annotated[
        list[str] | None, typer.Argument(metavar="MECHANISM", help="The mechanisms to attack. [default: all]")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", help="Runs on each side of each attack. [default: enough to exceed each claim]", min=1
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Attack the mechanisms: how much do they give away at least?

    Every mechanism runs thousands of times on two made-up databases that differ in one row. From what it releases
    follows a lower bound on its epsilon. A bound above the claim is proof of a bug (exit code 1); a bound below
    proves nothing. No vault and no private data are touched.
    """
    from treering.audit.attacks import CONFIDENCE, attacks, chosen

    found: list[tuple[Attack, Audit]] = []
    for attack in chosen(attacks(), mechanisms or []):
        with progress(f"attacking {attack.mechanism}", "runs") as advance:
            found.append((attack, attack.find(samples, advance)))
    plain = {
        "confidence": CONFIDENCE,
        "kept": all(_kept(attack, result) for attack, result in found),
        "attacks": [_plain(attack, result) for attack, result in found],
    }
    Output(as_json).result(plain, lambda out: show(out, plain))
    if not plain["kept"]:
        raise typer.Exit(OTHER)


def _kept(attack: Attack, result: Audit) -> bool:
    return result.epsilon <= attack.epsilon


def _plain(attack: Attack, result: Audit) -> dict[str, Any]:
    return {
        "mechanism": attack.mechanism,
        "attack": attack.words,
        "claimed": attack.epsilon,
        "delta": attack.delta,
        "bound": result.epsilon,
        "reach": attack.reach(result.samples),
        "samples": result.samples,
        "kept": _kept(attack, result),
    }


_BLIND = "too few samples"


def _verdict(each: dict[str, Any]) -> str:
    if not each["kept"]:
        return "BROKEN"
    return "kept" if each["reach"] > each["claimed"] else _BLIND


def show(out: Output, plain: dict[str, Any]) -> None:
    """Show the audit as a table, and say what it means."""
    heads = ["mechanism", "attack", "claimed epsilon", "at least", "could find", "samples", ""]
    rows = [
        [
            each["mechanism"],
            each["attack"],
            f"{each['claimed']:g}",
            f"{each['bound']:.3f}",
            f"{each['reach']:.3f}",
            f"{each['samples']:,}",
            _verdict(each),
        ]
        for each in plain["attacks"]
    ]
    styles = ["" if each["kept"] else "bold red" for each in plain["attacks"]]
    out.table(heads, rows, right=(2, 3, 4, 5), styles=styles)
    out.line()
    if plain["kept"]:
        out.line("No attack found more than was claimed. That is no proof: an attack may be too weak.", "bold")
    else:
        out.line("An attack found more than was claimed: that is a bug, please report it.", "bold red")
    if any(_verdict(each) == _BLIND for each in plain["attacks"]):
        out.line("Where the samples are too few, no mechanism could have been accused: take more --samples.", "bold")
    out.line('"Could find" is the largest bound that this number of samples can prove of any mechanism.', "dim")
    out.line(f"Each bound is wrong with probability {1 - plain['confidence']:.0e} at most.", "dim")
