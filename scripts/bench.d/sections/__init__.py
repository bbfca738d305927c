"""The sections of the report, in its order; each has a TITLE and a function `measure`."""
