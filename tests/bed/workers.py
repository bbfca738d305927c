"""The workers of a run: those of scripts/demo."""

from __future__ import annotations

from workers import Load, Workers

__all__ = ["Load", "Workers"]
