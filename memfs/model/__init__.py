"""The contract's objects, rules and errors; no I/O."""
