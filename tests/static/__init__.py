"""What can be seen without running anything: form, lints, words, sizes, links."""
