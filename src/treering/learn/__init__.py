"""scikit-learn estimators whose models are private, and improve as rows arrive: `treering.schedulers.ermg` underneath.

    PrivateLogisticRegression   two classes, with probabilities
    PrivateSVC                  two classes, a linear support vector machine
    PrivateRidge                numbers
    PrivateMedian               the geometric median of points

They keep their rows sealed in this process; what leaves is a released model and public facts. Needs scikit-learn:
``pip install 'treering[learn]'``.
"""

from treering.lazy import attach

TYPE_CHECKING = False

__all__ = ["PrivateLogisticRegression", "PrivateMedian", "PrivateRidge", "PrivateSVC"]

if TYPE_CHECKING:
    from treering.learn.estimators import PrivateLogisticRegression, PrivateMedian, PrivateRidge, PrivateSVC
else:
    _HOMES = {"estimators": ("PrivateLogisticRegression", "PrivateMedian", "PrivateRidge", "PrivateSVC")}
    __getattr__, __dir__ = attach(__name__, _HOMES, extra=("sklearn", "learn"))
