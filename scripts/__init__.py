"""What is run while building and checking; no part of what is installed."""
