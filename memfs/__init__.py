"""memfs: an agent's memory store, mounted as a directory."""

__version__ = "0.1.0"
