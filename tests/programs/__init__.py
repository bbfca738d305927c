"""The programs themselves, without ports."""
