"""What scripts judge and choose by themselves, without ports."""
