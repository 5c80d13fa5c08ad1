"""The `waggle` command: run the suite, look after it, fill it and search it."""
