"""Moves whole stores in and out: a directory of plain files into a store, a store into a directory."""
