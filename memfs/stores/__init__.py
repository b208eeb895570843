"""The services that keep memories, behind one interface: `memfs.stores.base.MemoryStore`."""
