"""A pytest plugin: examples that fail are not made smaller by Hypothesis. Here it is enough that a test fails."""

from __future__ import annotations

from typing import Final

from hypothesis import Phase, settings

PROFILE: Final = "mutants"

settings.register_profile(
    PROFILE, settings.get_profile("ci"), phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.target)
)
