"""`make bench`: memfs beside the least that pyfuse3 can cost, libfuse's own example, and what else mounts a remote store.

`workloads` and `tree` know nothing of memfs and measure any directory; `latency` is a wire with a round trip; `floor` is the
floor. `subjects` starts what is compared, `local`, `remote` and `growth` compare it, `report` and `plots` show it.
"""
