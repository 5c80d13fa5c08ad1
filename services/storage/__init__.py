"""The store: engines, commits, snapshots, and the transactions that other services run."""
