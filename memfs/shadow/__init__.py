"""Keeps a plain directory and its stores alike, where no file system can be mounted."""
