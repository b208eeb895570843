"""Mounts and clients of the other services: what docs/services.md says of each, conflicts, outages and wrong input."""
