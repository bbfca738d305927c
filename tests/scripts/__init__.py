"""Judgements and choices of the scripts, without ports."""
