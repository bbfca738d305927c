"""The parts of scripts/test: which tests run, how their cases count, and the report at the end."""
