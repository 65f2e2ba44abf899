"""What the store knows of a file's data: its layout, which objects exist, its size, truncations. One transaction each.

Not here: the objects (`objects`), names (`namespace`).
"""

from __future__ import annotations

from fairlead.steer.targets.inode import Inode
from fairlead.steer.targets.records import Records


def assign_inode_layout(records: Records, ino: int, stripe: int, targets: list[str]) -> Inode:
    """Gives a file its layout; one it has already stays."""
    inode = records.get_inode(ino)
    if not inode.targets:
        inode.stripe, inode.targets = stripe, targets
        records.put(inode)
    return inode


def record_inode_objects(records: Records, ino: int, objects: int, size: int, cuts: int) -> Inode:
    """Objects (bits) exist now and the file reaches at least to `size` (unless it was truncated since `cuts`)."""
    inode = records.get_inode(ino)
    inode.made |= objects
    if cuts == inode.cuts and inode.size < size:
        inode.size = size
    records.put(inode)
    return inode


def drop_inode_objects(records: Records, ino: int, objects: int) -> Inode:
    """Objects that are gone for good are holes from now on (a repair)."""
    inode = records.get_inode(ino)
    inode.made &= ~objects
    records.put(inode)
    return inode


def record_inode_write(records: Records, ino: int, now: int) -> Inode:
    """A write came after the modification time was set by hand, or to a file with capabilities."""
    inode = records.get_inode(ino)
    records.drop_capability(inode)
    inode.mtime = inode.ctime = inode.timed = now
    records.put(inode)
    return inode


def resize_inode(records: Records, ino: int, size: int, now: int, cutting: bool) -> Inode:
    """From here the file has that size. If `cutting`, objects are cut next and `finish_inode_resize` ends it."""
    inode = records.get_inode(ino)
    inode.size = size
    inode.cut = size if cutting else -1
    records.drop_capability(inode)
    inode.cuts += 1
    inode.mtime = inode.ctime = inode.timed = now
    records.put(inode)
    return inode


def finish_inode_resize(records: Records, ino: int, cuts: int, now: int) -> Inode:
    """The objects of truncation number `cuts` are cut."""
    inode = records.get_inode(ino)
    if inode.cuts == cuts:
        inode.cut = -1
        inode.mtime = inode.ctime = inode.timed = now
        records.put(inode)
    return inode


def list_orphan_inodes(records: Records) -> list[tuple[int, int]]:
    """Inodes without a name, and since when."""
    return records.list_orphans()


def find_inode(records: Records, ino: int) -> Inode | None:
    """The record of an inode, or None."""
    return records.find(ino)


def reclaim_inode(records: Records, ino: int) -> None:
    """Forgets an inode without a name, after its objects."""
    inode = records.find(ino)
    if inode is not None and inode.nlink < 0:
        records.drop(ino)


def condemn_inode(records: Records, ino: int) -> Inode | None:
    """From now on the inode is gone for everybody: its objects may be removed. None if it has a name."""
    inode = records.find(ino)
    if inode is None or inode.nlink > 0:
        return None
    if inode.nlink == 0:
        inode.nlink = -1
        records.put(inode)
    return inode


def keep_inode(records: Records, ino: int) -> Inode:
    """The record of an inode that is held already. As a change it comes before or after a `condemn`, never beside."""
    return records.get_inode(ino)


def list_inodes(records: Records, after: int, limit: int) -> list[Inode]:
    """Records in the order of their numbers, a page at a time (for checks)."""
    return records.page(after, limit)


def drop_inode_name(records: Records, parent: int, name: bytes) -> None:
    """Removes a name that leads nowhere (a repair)."""
    records.remove_name(parent, name)


def set_inode_links(records: Records, ino: int, links: int, now: int) -> None:
    """Sets the number of links (a repair); an inode without any becomes an orphan."""
    inode = records.get_inode(ino)
    inode.nlink = links
    records.put(inode)
    if links == 0:
        records.add_orphan(ino, now)
    else:
        records.adopt(ino)
