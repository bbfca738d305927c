"""The appliance in a container: its image, how it runs there, and the files that start it."""
