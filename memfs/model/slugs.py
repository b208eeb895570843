"""The directory name of a store (contract section 7): its slug."""

import re


def slug(name: str, store_id: str) -> str:
    """`name` in lower case, every run of other characters than ASCII letters and digits one ``-``, trimmed.

    A name without a letter or digit gives the store's id.
    """
    return re.sub("[^a-z0-9]+", "-", "".join(c.lower() if c.isascii() else c for c in name)).strip("-") or store_id
