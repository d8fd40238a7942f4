"""The README's pictures of the page can be taken."""

from __future__ import annotations

import pytest

from experiments import page_picture
from support.programs import chromium


def test_the_pictures_are_taken_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    chromium()
    assert page_picture.main(["--quick"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("holds") == 4


def test_the_pictures_are_small() -> None:
    pictures = sorted(page_picture.IMAGES.glob("page_*.png"))
    assert [path.stem for path in pictures] == ["page_ask", "page_status"]
    assert all(path.stat().st_size < page_picture.MOST_BYTES for path in pictures)
