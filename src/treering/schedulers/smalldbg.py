"""SmallDBG: the paper's first instantiation, SmallDB rerun as the database grows."""

from __future__ import annotations

from collections.abc import Iterable

from treering.boxes.base import Progress
from treering.boxes.smalldb import SmallDB
from treering.budget.promise import Promise
from treering.domain.question import Question
from treering.gate import Database
from treering.params import Number
from treering.schedulers.base import Profile
from treering.schedulers.scheduler import BBScheduler


class SmallDBG(BBScheduler):
    """`BBScheduler` over `SmallDB`: a small synthetic database that answers every query of a class, kept current.

    Formal guarantee: that of `BBScheduler`. (Cummings, Krehbiel, Lai, Tantipongpipat, theorem "SmallDBG": α of order
    (log N·log k·log(1/β)/(εn))^{1/5} for k queries and N cells; the tight profile has exponent 1/4.)
    """

    def __init__(
        self,
        db: Database,
        queries: Iterable[Question],
        epsilon: Number | Promise,
        delta: Number = 0.0,
        beta: Number = 0.05,
        profile: Profile = "tight",
        *,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(db, SmallDB(queries), epsilon, delta, beta, profile, progress=progress)
