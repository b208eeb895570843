"""State of the same store under other mount points that no daemon holds any more: what waits there goes out with this mount.

Only what was acknowledged and is not in the store: drafts, deletions, renames. Scratch files, modes and times belong to their
mount point and stay there for its next mount.
"""

from dataclasses import replace
from pathlib import Path

from memfs.model.errors import MemfsError
from memfs.replica.attached import Attached
from memfs.replica.commit import Committer
from memfs.replica.journal import Journal, JournalBusy
from memfs.replica.listing import Listing
from memfs.replica.parking import Parking
from memfs.replica.replay import Replay
from memfs.replica.tree import Tree


async def replay_orphans(attached: Attached) -> bool:
    """Store what waits in the state directories beside that of `attached`; whether nothing is left that can be stored later.

    Raises nothing: what fails is reported, and stays where it is. A directory is locked while it is worked on: a mount of its
    own place waits that long.
    """
    done = True
    own = attached.journal.directory
    for directory in sorted(own.parent.iterdir()):
        if directory != own and (directory / "journal.db").exists():
            try:
                done = await _replay(attached, directory) and done
            except MemfsError as error:
                attached.report("replay", str(directory), error)
    return done


async def _replay(attached: Attached, directory: Path) -> bool:
    try:
        journal = Journal(directory)
    except JournalBusy:
        return True  # its daemon lives
    try:
        if not journal.waits():
            return True
        other = replace(
            attached,
            journal=journal,
            tree=Tree(None, attached.store.id),
            changed_here={},
            pending=set(),
            reasons={},
        )
        committer = Committer(other)
        replay = Replay(other, committer, Listing(other, Parking(other, committer)))
        await replay.run()
        return not replay.unfinished
    finally:
        journal.close()
