"""Read-only virtual trees: what the mount shows besides memories."""
