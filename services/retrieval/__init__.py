"""Search and traversal over an in-memory replica of the partitions that are asked for."""
