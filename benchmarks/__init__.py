"""Measures every budget of the architecture and prints figure and budget side by side: `make bench`."""
