"""One attached store as the mount sees it: tree, drafts, journal."""
