from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from treering.service.metrics import BOUNDS, Metrics

STATUS = {"unit": "rho", "size": 7, "entries": 3, "total": 2.0, "spent": 0.5, "remaining": 1.5}


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.text(STATUS, 4))
    return {(each.name, tuple(sorted(each.labels.items()))): each.value for one in families for each in one.samples}


def test_the_vaults_public_quantities() -> None:
    found = samples(Metrics())
    assert found["treering_rows", ()] == 7
    assert found["treering_ledger_entries", ()] == 3
    assert found["treering_budget_spent", (("unit", "rho"),)] == 0.5
    assert found["treering_listeners", ()] == 4


def test_answers_and_rows_are_counted() -> None:
    metrics = Metrics()
    metrics.asked({"measured": 2, "cached": 1}, 0.25)
    metrics.asked({"cached": 1}, 0.0)
    metrics.took(10)
    found = samples(metrics)
    assert found["treering_answers_total", (("kind", "cached"),)] == 2
    assert found["treering_answers_total", (("kind", "measured"),)] == 2
    assert found["treering_charged_total", ()] == 1
    assert found["treering_rows_taken_total", ()] == 10
    assert sum(sum(each.values()) for each in metrics.over_time().values()) == 4


def test_requests_and_latencies() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.005, 0.3, 100.0):
        metrics.saw("GET", "/x", 200, seconds)
    found = samples(metrics)
    requests = ("method", "GET"), ("route", "/x"), ("status", "200")
    assert found["treering_requests_total", requests] == 4
    below = [found["treering_request_seconds_bucket", (("le", str(each)), ("route", "/x"))] for each in BOUNDS]
    assert below == sorted(below)
    assert (below[0], below[-1]) == (2, 3)
    assert found["treering_request_seconds_bucket", (("le", "+Inf"), ("route", "/x"))] == 4
    assert found["treering_request_seconds_count", (("route", "/x"),)] == 4
    assert abs(found["treering_request_seconds_sum", (("route", "/x"),)] - 100.306) < 1e-9
