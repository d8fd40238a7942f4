"""No file of the repository names an address to fetch from, or a folder of somebody's machine."""

from __future__ import annotations

import re

import pytest

from support.repository import ROOT, files

# In pieces, so that this file keeps the rule too.
FORBIDDEN = [
    # The name of XML's vocabulary for pictures looks like an address, but nothing is ever fetched from it.
    re.compile("http" + r"s?://(?!(localhost|127\.0\.0\.1|\[::1\]|testserver|www\.w3\.org/2000/svg|arxiv\.org/abs)\b)"),
    re.compile("file" + "://"),
    re.compile(r"\b(pypi|pythonhosted|npmjs|debian)" + r"\.(org|com)\b"),
    re.compile(r"(?<![\w.])/(work|root|opt|home|tmp)" + "/"),
]
EXEMPT = {"LICENSE"}
"""The licence's text is not ours to change."""


def breaches(text: str) -> list[str]:
    lines = enumerate(text.splitlines(), start=1)
    return [f"line {number}: {line.strip()[:80]}" for number, line in lines for each in FORBIDDEN if each.search(line)]


def test_no_file_names_an_address_or_a_machine_path() -> None:
    checked = {path.relative_to(ROOT).as_posix(): path for path in files()}
    assert {"pyproject.toml", "requirements/dev.txt", "Makefile"} <= set(checked)
    found = {
        name: complaints
        for name, path in checked.items()
        if name not in EXEMPT and (complaints := breaches(path.read_text(encoding="utf-8", errors="replace")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "--index-url " + "https" + "://packages.example/simple",
        "see " + "http" + "://example.com",
        "pkg @ " + "file" + ":///wheels/pkg.whl",
        "from files.python" + "hosted.org",
        "found in '/ro" + "ot/.cache'",
        "--find-links=/o" + "pt/wheels",
        "cd /wo" + "rk/main",
    ],
)
def test_a_breach_is_seen(text: str) -> None:
    assert breaches(text)


@pytest.mark.parametrize(
    "text",
    ["served at http" + "://localhost:8765", "http" + "://127.0.0.1:80/", "a/work/b", "the home/away score", "10/12"],
)
def test_what_is_allowed_is_not_complained_about(text: str) -> None:
    assert breaches(text) == []


def test_the_locks_pin_every_package_with_hashes_and_agree() -> None:
    pins: dict[str, set[str]] = {}
    for name in ("runtime", "dev", "uv", "diffprivlib"):
        lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
        entries = [line for line in lines if line and not line.startswith(("#", " "))]
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+( ; .+?)? \\", line) for line in entries)
        assert all(
            re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in lines if line.startswith(" ")
        )
        # Without the platforms that a package is for: another package may want it on more of them.
        pins[name] = {line.split(" ")[0] for line in entries}
    assert len(pins["runtime"]) > 10
    assert pins["runtime"] <= pins["dev"]
    assert not any(pin.startswith(("pytest", "mypy", "pyspark", "jax")) for pin in pins["runtime"])
