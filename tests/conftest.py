"""Settings of every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The first call of a kernel compiles it, so time says nothing about a test.
settings.register_profile("starling", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("starling")
