"""The SQL store over HTTP, wire-compatible with the contract."""
