"""The whole, over real ports."""
