"""The wheel, built once in a test process, and once installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.wheel import Installed, build_wheel, install_wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install_wheel(wheel, tmp_path_factory.mktemp("installed"))
