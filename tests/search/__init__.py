"""Search by file and by command."""
