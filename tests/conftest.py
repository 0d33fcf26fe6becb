"""What all tests share: warnings are errors (pyproject.toml), and Hypothesis is random only through a fixed seed."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "mercer", derandomize=True, deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("mercer")
