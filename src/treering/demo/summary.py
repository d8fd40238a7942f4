"""What the year was like, in sentences that a newcomer understands."""

from __future__ import annotations

from treering.demo.story import BETA, DELTA, EPSILON, Story


def sentences(story: Story) -> list[str]:
    """Each stands for itself."""
    size, analyst, figures = story.status["size"], story.tallies["pmwg"], story.tallies["dashboard"]
    reruns = len(next(each for each in story.status["mechanisms"] if each["name"] == "dashboard")["epochs"])
    last = story.moments[-1]
    beyond = analyst.beyond + figures.beyond
    return [
        f"{size:,} flights came in, day by day, under one promise for all time: epsilon = {EPSILON:g}, "
        f"delta = {DELTA:g}. Whoever sees every answer ever given learns next to nothing about any one flight.",
        f"{story.asked:,} questions were asked. {story.free:,} of them were free: the dashboard's "
        f"figures come from {reruns} reruns of its box, however often one looks. "
        f"The other {story.asked - story.free:,}, each chosen after seeing the answers before, were measured, and cost "
        f"little each.",
        f"Of the promise {1 - story.unused:.0%} is spent and {story.unused:.0%} is left. "
        "The more flights there are, the less a question costs.",
        f"Worst error: {figures.worst:.2%} on the dashboard, where at most {figures.stated:.2%} was promised; "
        f"{analyst.worst:.2%} for the analyst, where at most {analyst.stated:.2%} was (all answers together, "
        f"with probability {1 - BETA:.0%}). "
        + ("No answer was" if not beyond else f"{beyond:,} answers were")
        + " further off than stated. (These flights are public, so one can look.)",
        f"The lateness model was released anew {_models(story)} times as flights came, and ends with an AUC of "
        f"{last.auc:.3f}: that often it ranks a late flight above one that is not.",
    ]


def _models(story: Story) -> int:
    return len(next(each for each in story.status["mechanisms"] if each["kind"] == "ermg")["epochs"])
