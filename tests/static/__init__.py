"""Checks without running anything: form, lints, words, sizes, links."""
