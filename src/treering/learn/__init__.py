"""scikit-learn estimators whose models are private, and improve as rows arrive: `treering.schedulers.ermg` underneath.

    PrivateLogisticRegression   two classes, with probabilities
    PrivateSVC                  two classes, a linear support vector machine
    PrivateRidge                numbers
    PrivateMedian               the geometric median of points

They keep their rows sealed in this process; what leaves is a released model and public facts. Needs scikit-learn:
``pip install treering[learn]``.
"""

try:
    from treering.learn.estimators import PrivateLogisticRegression, PrivateMedian, PrivateRidge, PrivateSVC
except ModuleNotFoundError as missing:
    if (missing.name or "").split(".")[0] not in ("sklearn", "scipy"):
        raise
    raise ImportError("treering.learn needs scikit-learn and scipy: pip install treering[learn]") from missing

__all__ = ["PrivateLogisticRegression", "PrivateMedian", "PrivateRidge", "PrivateSVC"]
