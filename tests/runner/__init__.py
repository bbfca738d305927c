"""What scripts/test is made of: which tests run, how their cases count, and the report at the end."""
