"""The pyfuse3 file system."""
