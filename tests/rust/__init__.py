"""What cargo checks and runs."""
