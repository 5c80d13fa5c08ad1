"""One workspace inside a transaction, for every service that writes to it."""
