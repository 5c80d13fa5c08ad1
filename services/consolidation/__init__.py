"""Durable consolidation: jobs, leases, fences, and the publication of what external extractors find."""
