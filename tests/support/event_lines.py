"""Events, and the lines of the ledger that they are."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

import treering as tr
from support.events import NO_STEPS
from treering import gate
from treering.budget.cost import Cost, laplace
from treering.budget.promise import Budget
from treering.budget.rows import Charge, Steps
from treering.domain.axis import Scalar
from treering.domain.groups import Groups
from treering.domain.loss import HuberDistance, HuberHinge, RobustLogistic, Squared
from treering.domain.problem import Net, NoisyMoments, Problem, Refinement
from treering.domain.query import Query
from treering.domain.sums import Capped, sums_of
from treering.domain.tally import Tally
from treering.gate import Discovery
from treering.mechanisms.histogram.step import Step
from treering.mechanisms.series.ring import Opened
from treering.mechanisms.series.root import Finished, Tail
from treering.mechanisms.series.tree import Estimates, Piece
from treering.mechanisms.state import Doubted, Learned
from treering.noise import Gaussian, Laplace
from treering.schedulers.epochs import EpochFailed

SCHEMA = tr.Schema(
    {
        "origin": tr.categories("EWR", "JFK", "LGA"),
        "month": tr.integers(1, 12),
        "late": tr.categories("no", "yes"),
        "minute": tr.integers(0, 1439),
    }
)
JFK = Query.where(SCHEMA, origin="JFK", month=[12, 1, 2])
EITHER = tr.parse("origin = 'JFK' OR late = 'yes'", SCHEMA)
COUNTS = np.array([[3, -1], [0, 7]])
TENTH = laplace(1, 10)
GROUPS = Groups.over(SCHEMA, (0, 2), (np.array([0, 1, 0]), np.array([0, 1])), np.array([[0, -1], [1, 1]]))
BEGUN = gate.SegmentBegun(9, 0, 3, 4, Groups.marginal(SCHEMA, ["late"]), Gaussian(2.0), 5)
LINES: list[tuple[gate.Event, str]] = [
    (
        gate.Measured(9, TENTH, (JFK, EITHER), Laplace(10.0), (4, -2)),
        '{"event":"Measured","size":9,"cost":{"epsilon":"1/10","rho":"1/200"},"queries":[{"where":{"origin":{"lis'
        'ted":["JFK"],"classes":[1,0,0,0]},"month":{"cuts":[3,12],"classes":[1,0,1,1,1]}}},{"over":{"origin":{"li'
        'sted":["JFK"],"classes":[0,1,1,1]},"late":{"listed":["yes"],"classes":[0,1,1,1]}},"scale":1,"weights":{"'
        'dtype":"<i8","shape":[2,2],"values":[1,1,1,0]}}],"noise":{"Laplace":{"scale":10.0}},"values":[4,-2]}',
    ),
    (
        gate.RunStarted(9, Cost(None, Fraction(1, 8)), 0, gate.RunRequest(1.5, 3.0, Gaussian(2.0))),
        '{"event":"RunStarted","size":9,"cost":{"epsilon":null,"rho":"1/8"},"run":0,"request":{"threshold_scale"'
        ':1.5,"query_scale":3.0,"answer":{"Gaussian":{"scale":2.0}}}}',
    ),
    (gate.Compared(9, 1, 17, None), '{"event":"Compared","size":9,"run":1,"asked":17,"crossing":null}'),
    (
        gate.Compared(9, 1, 17, gate.Crossing(16, -3)),
        '{"event":"Compared","size":9,"run":1,"asked":17,"crossing":{"index":16,"value":-3}}',
    ),
    (gate.RunEnded(9, 1, Fraction(0)), '{"event":"RunEnded","size":9,"run":1,"refund":"0/1"}'),
    (
        gate.HistogramReleased(9, TENTH, (0, 2), Laplace(20.0), COUNTS),
        '{"event":"HistogramReleased","size":9,"cost":{"epsilon":"1/10","rho":"1/200"},"attributes":[0,2],"noise"'
        ':{"Laplace":{"scale":20.0}},"counts":{"dtype":"<i8","shape":[2,2],"values":[3,-1,0,7]}}',
    ),
    (
        gate.Selected(9, TENTH, (), 0),
        '{"event":"Selected","size":9,"cost":{"epsilon":"1/10","rho":"1/200"},"queries":[],"index":0}',
    ),
    (
        gate.RowsDrawn(9, TENTH, (), 2, (5, 5)),
        '{"event":"RowsDrawn","size":9,"cost":{"epsilon":"1/10","rho":"1/200"},"queries":[],"rows":2,"cells":[5,5]}',
    ),
    (
        gate.ForeignReleased(9, TENTH, (1, 0.1, float("inf"), float("-inf"), float("nan"), -0.0)),
        '{"event":"ForeignReleased","size":9,"cost":{"epsilon":"1/10","rho":"1/200"},"values":[1,0.1,"inf",'
        '"-inf","nan",-0.0]}',
    ),
    (
        gate.Minimised(9, TENTH, Problem(HuberHinge(), 2), Net(0.5, 2.0), (0.25, -0.5)),
        '{"event":"Minimised","size":9,"cost":{"epsilon":"1/10","rho":"1/200"},"problem":{"loss":{"HuberHinge":'
        '{"width":0.5}},"dimension":2,"radius":1.0,"regularisation":0.0},"method":{"Net":{"pitch":0.5,"scale":2.0,'
        '"resolution":1048576,"most_dimensions":3}},"theta":[0.25,-0.5],"rows":null,"held":null}',
    ),
    (
        gate.Minimised(9, TENTH, Problem(Squared(), 2), NoisyMoments(2.0, 0.5, (0.25, 0.0)), (0.25, -0.5), (4, 9)),
        '{"event":"Minimised","size":9,"cost":{"epsilon":"1/10","rho":"1/200"},"problem":{"loss":{"Squared":{}},'
        '"dimension":2,"radius":1.0,"regularisation":0.0},"method":{"NoisyMoments":{"scale":2.0,"ridge":0.5,"start":'
        '[0.25,0.0],"refinement":null}},"theta":[0.25,-0.5],"rows":[4,9],"held":null}',
    ),
    (
        gate.Minimised(9, TENTH, Problem(HuberDistance(0.25), 2), Net(0.5, 2.0), (0.25, -0.5)),
        '{"event":"Minimised","size":9,"cost":{"epsilon":"1/10","rho":"1/200"},"problem":{"loss":{'
        '"HuberDistance":{"width":0.25}},"dimension":2,"radius":1.0,"regularisation":0.0},"method":{"Net":{"pitch":0.5,'
        '"scale":2.0,"resolution":1048576,"most_dimensions":3}},"theta":[0.25,-0.5],"rows":null,"held":null}',
    ),
    (
        gate.Reserved(9, TENTH, Budget("pure", Fraction(1, 10))),
        '{"event":"Reserved","size":9,"cost":{"epsilon":"1/10","rho":"1/200"},"part":{"kind":"pure","total":"1/10"}}',
    ),
    (gate.ReservationEnded(9), '{"event":"ReservationEnded","size":9}'),
    (
        gate.Condensed(
            *(9, Fraction(1, 3), 2, (), None),
            Steps(((4, Fraction(1, 4)),), ((0, Fraction(0)), (4, Fraction(1, 3)))),
            *(1, (gate.OpenSegment(BEGUN, np.array([4, 9]), np.array([5])),), (4,)),
        ),
        '{"event":"Condensed","size":9,"spent":"1/3","next_run":2,"runs":[],"note":null,"steps":{"everyone":[[4,"'
        '1/4"]],"rows":[[0,"0/1"],[4,"1/3"]]},"next_segment":1,"segments":[{"begun":{"size":9,"segment":0,"series'
        '":3,"start":4,"groups":{"axes":[{"column":"late","kind":"text","listed":["yes"],"classes":[1,0,0,0]}],"t'
        'able":null},"noise":{"Gaussian":{"scale":2.0}},"room":5,"sums":null},"edges":{"dtype":"<i8","shape":[2],'
        '"values":[4,9]},"drawn":{"dtype":"<i8","shape":[1],"values":[5]}}],"marks":[4],"failures"'
        ":null}",
    ),
    (
        gate.Discovered(
            9,
            Cost(None, Fraction(1, 4)),
            Discovery(Scalar("late", "text"), ("no", "yes"), (4, 9), 2.0, Fraction(1, 10**9)),
            (("maybe", 83),),
        ),
        '{"event":"Discovered","size":9,"cost":{"epsilon":null,"rho":"1/4"},"request":{"scalar":{"column":"late",'
        '"kind":"text","zone":null,"part":null},"listed":["no","yes"],"rows":[4,9],"scale":2.0,"failure":"1/100000'
        '0000"},"found":[["maybe",83]]}',
    ),
    (
        gate.Noted(Learned(Step(JFK, (0.5, 2.0), 0.1, -0.1), -0.25)),
        '{"event":"Noted","note":{"Learned":{"step":{"query":{"where":{"origin":{"listed":["JFK"],"classes":[1,0,'
        '0,0]},"month":{"cuts":[3,12],"classes":[1,0,1,1,1]}}},"factors":[0.5,2.0],"rate":0.1,"log_normaliser":-0'
        '.1},"change":-0.25}}}',
    ),
    (gate.Noted(Doubted()), '{"event":"Noted","note":{"Doubted":{}}}'),
    (
        gate.Noted(EpochFailed(3, "≤ \ud800")),
        '{"event":"Noted","note":{"EpochFailed":{"index":3,"message":"\\u2264 \\ud800"}}}',
    ),
    (
        gate.Noted((None, True, 1, 1.5, "x", [1], {"a": Fraction(1, 3)}, float("nan"), JFK)),
        '{"event":"Noted","note":[null,true,1,1.5,"x",{"list":[1]},{"dict":[["a",{"fraction":"1/3"}]]},{"float":"'
        'nan"},{"query":{"where":{"origin":{"listed":["JFK"],"classes":[1,0,0,0]},"month":{"cuts":[3,12],"classes'
        '":[1,0,1,1,1]}}}}]}',
    ),
    (
        gate.Combined(9, TENTH, GROUPS, (gate.Span(0, 4, 1), gate.Span(4, 9, -2)), Laplace(20.0), np.array([3, -1])),
        '{"event":"Combined","size":9,"cost":{"epsilon":"1/10","rho":"1/200"},"groups":{"axes":[{"column":"origin'
        '","kind":"text","listed":["JFK"],"classes":[1,0,0,0]},{"column":"late","kind":"text","listed":["yes"],"c'
        'lasses":[1,0,0,0]}],"table":{"dtype":"<i8","shape":[2,2],"values":[0,-1,1,1]}},"spans":[{"start":0,"end"'
        ':4,"weight":1},{"start":4,"end":9,"weight":-2}],"noise":{"Laplace":{"scale":20.0}},"values":{"dtype":"<i'
        '8","shape":[2],"values":[3,-1]},"sums":null}',
    ),
    (
        BEGUN,
        '{"event":"SegmentBegun","size":9,"segment":0,"series":3,"start":4,"groups":{"axes":[{"column":"late","ki'
        'nd":"text","listed":["yes"],"classes":[1,0,0,0]}],"table":null},"noise":{"Gaussian":{"scale":2.0}},"room'
        '":5,"sums":null}',
    ),
    (
        gate.Advanced(
            *(9, Cost(None, Fraction(1, 8)), 0, 2),
            *((gate.Ones(1), gate.Root(2)), (np.array([3, -1]), np.array([0, 7]))),
        ),
        '{"event":"Advanced","size":9,"cost":{"epsilon":null,"rho":"1/8"},"segment":0,"leaf":2,"patterns":'
        '[{"Ones":{"leaves":1}},{"Root":{"leaves":2}}],"values":[{"dtype":"<i8","shape":[2],"values":[3,-1]},{"dtype":'
        '"<i8","shape":[2],"values":[0,7]}]}',
    ),
    (
        gate.Advanced(9, Cost(None, Fraction(1, 8)), 0, 2, (gate.Fading(2),), (np.array([3, -1]),)),
        '{"event":"Advanced","size":9,"cost":{"epsilon":null,"rho":"1/8"},"segment":0,"leaf":2,"patterns":'
        '[{"Fading":{"leaves":2}}],"values":[{"dtype":"<i8","shape":[2],"values":[3,-1]}]}',
    ),
    (
        gate.SegmentCondensed(
            *(9, 0, np.array([4, 6, 9]), np.array([2, 1])),
            Estimates((4, 9), {(0, 1): Piece(0, 4, np.array([0.5, 1.5]))}, None),
        ),
        '{"event":"SegmentCondensed","size":9,"segment":0,"edges":{"dtype":"<i8","shape":[3],"values":[4,6,9]},'
        '"drawn":{"dtype":"<i8","shape":[2],"values":[2,1]},"note":{"Estimates":{"sizes":[4,9],'
        '"pieces":[[[0,1],{"start":0,"end":4,"cells":{"dtype":"<f8","shape":[2],"data":"b:AAAAAAAA4D8AAAAAAAD4Pw=="'
        '}}]],"past":null}}}',
    ),
    (
        gate.SegmentEnded(
            9, 0, 3, (Charge(4, 9, Fraction(1, 16)),), Finished(2, 9, (Tail(4, np.array([0.5, 1.5]), 2.25),))
        ),
        '{"event":"SegmentEnded","size":9,"segment":0,"series":3,"charges":[{"start":4,"end":9,"amount":"1/16"}],"note":'
        '{"Finished":{"leaves":2,"end":9,"tails":[{"start":4,"counts":{"dtype":"<f8","shape":[2],"data":'
        '"b:AAAAAAAA4D8AAAAAAAD4Pw=="},"variance":2.25}]}}}',
    ),
    (gate.Marked(9), '{"event":"Marked","size":9}'),
    (gate.PersonsCounted(9, 4), '{"event":"PersonsCounted","size":9,"persons":4}'),
    (
        gate.Minimised(
            9,
            TENTH,
            Problem(RobustLogistic(), 2),
            NoisyMoments(2.0, 0.5, None, Refinement(2, 3.0, 4.0, 0.5)),
            (0.25, -0.5),
            (4, 9),
            2,
        ),
        '{"event":"Minimised","size":9,"cost":{"epsilon":"1/10","rho":"1/200"},"problem":{"loss":{'
        '"RobustLogistic":{}},"dimension":2,"radius":1.0,"regularisation":0.0},"method":{"NoisyMoments":{"scale":2.0,'
        '"ridge":0.5,"start":null,"refinement":{"rounds":2,"errors":3.0,"slopes":4.0,"allowed":0.5}}},"theta":[0.25,'
        '-0.5],"rows":[4,9],"held":2}',
    ),
    (
        gate.Tallied(9, TENTH, Tally((0.25, -0.5), "margins", (0.0,)), Laplace(2.0), np.array([3, -1])),
        '{"event":"Tallied","size":9,"drawn":{"epsilon":"1/10","rho":"1/200"},"tally":{"theta":[0.25,-0.5],'
        '"of":"margins","cuts":[0.0]},"noise":{"Laplace":{"scale":2.0}},"values":{"dtype":"<i8","shape":[2],"values":[3,-1]}}',
    ),
]

SUMMED = replace(BEGUN, sums=sums_of(SCHEMA, 3, counts=True))
OPEN = gate.OpenSegment(SUMMED, np.array([4, 9]), np.array([5]))
ALONE = sums_of(SCHEMA, 3, counts=False)
WITH_SUMS: list[tuple[gate.Event, str]] = [
    (
        SUMMED,
        '{"event":"SegmentBegun","size":9,"segment":0,"series":3,"start":4,"groups":{"axes":[{"column":"late","ki'
        'nd":"text","listed":["yes"],"classes":[1,0,0,0]}],"table":null},"noise":{"Gaussian":{"scale":2.0}},"room'
        '":5,"sums":{"Sums":{"scalar":{"column":"minute","kind":"integer","zone":null,"part":null},"grid":{"low":0.'
        '0,"high":1439.0,"step":1.0,"steps":1439},"clipped":false,"counts":true}}}',
    ),
    (
        replace(BEGUN, sums=Capped(2, 3, 30, Fraction(1, 7), ALONE)),
        '{"event":"SegmentBegun","size":9,"segment":0,"series":3,"start":4,"groups":{"axes":[{"column":"late","ki'
        'nd":"text","listed":["yes"],"classes":[1,0,0,0]}],"table":null},"noise":{"Gaussian":{"scale":2.0}},"room'
        '":5,"sums":{"Capped":{"each":2,"most":3,"limit":30,"price":"1/7","sums":{"scalar":{"column":"minute","ki'
        'nd":"integer","zone":null,"part":null},"grid":{"low":0.0,"high":1439.0,"step":1.0,"steps":1439},"clipped'
        '":false,"counts":false}}}}',
    ),
    (
        gate.Combined(9, TENTH, BEGUN.groups, (gate.Span(0, 9, 1),), Laplace(20.0), np.array([3, -1]), ALONE),
        '{"event":"Combined","size":9,"cost":{"epsilon":"1/10","rho":"1/200"},"groups":{"axes":[{"column":"late",'
        '"kind":"text","listed":["yes"],"classes":[1,0,0,0]}],"table":null},"spans":[{"start":0,"end":9,"weight":'
        '1}],"noise":{"Laplace":{"scale":20.0}},"values":{"dtype":"<i8","shape":[2],"values":[3,-1]},"sums":{"sca'
        'lar":{"column":"minute","kind":"integer","zone":null,"part":null},"grid":{"low":0.0,"high":1439.0,"step"'
        ':1.0,"steps":1439},"clipped":false,"counts":false}}',
    ),
    (
        gate.Noted(Opened(0, BEGUN.groups, Fraction(1, 7), (), sums_of(SCHEMA, 3, counts=True))),
        '{"event":"Noted","note":{"Opened":{"series":0,"groups":{"axes":[{"column":"late","kind":"text","listed":'
        '["yes"],"classes":[1,0,0,0]}],"table":null},"price":"1/7","registered":[],"sums":{"Sums":{"scalar":{"column":"mi'
        'nute","kind":"integer","zone":null,"part":null},"grid":{"low":0.0,"high":1439.0,"step":1.0,"steps":1439}'
        ',"clipped":false,"counts":true}}}}}',
    ),
    (
        gate.Condensed(9, Fraction(1, 3), 2, (), None, NO_STEPS, 1, (OPEN,)),
        '{"event":"Condensed","size":9,"spent":"1/3","next_run":2,"runs":[],"note":null,"steps":{"everyone":[],"r'
        'ows":[[0,"0/1"]]},"next_segment":1,"segments":[{"begun":{"size":9,"segment":0,"series":3,"start":4,"grou'
        'ps":{"axes":[{"column":"late","kind":"text","listed":["yes"],"classes":[1,0,0,0]}],"table":null},"noise"'
        ':{"Gaussian":{"scale":2.0}},"room":5,"sums":{"Sums":{"scalar":{"column":"minute","kind":"integer","zone":null,"p'
        'art":null},"grid":{"low":0.0,"high":1439.0,"step":1.0,"steps":1439},"clipped":false,"counts":true}}},"edg'
        'es":{"dtype":"<i8","shape":[2],"values":[4,9]},"drawn":{"dtype":"<i8","shape":[1],"values":[5]}}],"marks'
        '":[],"failures":null}',
    ),
]  # fmt: skip
"""Lines about sums."""
