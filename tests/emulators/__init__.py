"""The other public memory services, emulated from their documentation; no code is shared with the product."""
