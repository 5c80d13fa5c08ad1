"""Canonical memory: every write to records, bindings, reviews and relations, and their direct reads."""
