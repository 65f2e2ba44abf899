"""A directory of a local (or mounted) file system as a tree. Node numbers are inode numbers + 1.

Names are resolved in `places`, removed files that are open are in `kept`, locks in `locks`.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import contextmanager
from errno import EACCES, EISDIR, ENXIO, EOPNOTSUPP, EPERM
from typing import TYPE_CHECKING

from fairlead.steer.fs.os_errors import build_os_error, build_stale_os_error
from fairlead.steer.fs.trees import system_calls
from fairlead.steer.fs.trees.base import OWN_FOLDER, ROOT, TO_RUN, Entry, UnknownNode
from fairlead.steer.fs.trees.descriptors import reopen_descriptor, set_descriptor_attributes
from fairlead.steer.fs.trees.local_file import LocalFile
from fairlead.steer.fs.trees.locks import Locks
from fairlead.steer.fs.trees.node_paths import PIN, Places
from fairlead.steer.fs.trees.thread_identity import forwarder_identity
from fairlead.steer.fs.trees.unlinked_files import UnlinkedAttributes, UnlinkedFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairlead.steer.fs.trees.base import Change, OpenFile, Stat

_TAKEN = os.O_ACCMODE | os.O_APPEND | os.O_TRUNC | os.O_SYNC | os.O_DSYNC | os.O_NOATIME
"""What counts of the flags of a client. O_DIRECT does not: its buffers are aligned in the client, not here."""
_ADDED = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_MAKE = os.O_CREAT | os.O_EXCL
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TMPFILE = system_calls.O_TMPFILE & ~os.O_DIRECTORY
_ACL = b"system.posix_acl_"


class _Umask:
    """Modes come with the client's umask taken off; that of this process, which is one for all threads, must not take
    off more while there is a tree."""

    trees = 0
    before = 0
    guard = threading.Lock()

    @classmethod
    def take_off(cls) -> None:
        with cls.guard:
            before = os.umask(0)
            if cls.trees == 0:
                cls.before = before
            cls.trees += 1

    @classmethod
    def give_back(cls) -> None:
        with cls.guard:
            cls.trees -= 1
            if cls.trees == 0:
                os.umask(cls.before)


class DirectoryTree:
    """Implements `base.FileTree` on the directory `path`, with at most `folders` directories kept open."""

    clears_set_id = True

    def __init__(self, path: str | bytes | os.PathLike[str], *, folders: int = 512) -> None:
        self.name = os.fsdecode(path)
        self._places = Places(os.fspath(path), folders)
        self.root = self._places.root.fd
        self._kept = UnlinkedFiles(self.root)
        self.locks = Locks()
        self._open: dict[int, list[LocalFile]] = {}
        self._guard = threading.Lock()
        _Umask.take_off()
        self._kept.sweep()

    # Names

    def _named(self, parent: int, name: bytes) -> bytes:
        """A name that is to be made, removed or replaced."""
        if name == OWN_FOLDER and parent == ROOT:
            raise build_os_error(EPERM)
        return self._places.check_name(parent, name)

    def lookup(self, parent: int, name: bytes) -> tuple[int, Stat]:
        """The node of a name."""
        places = self._places
        if name in (b".", b".."):
            node = parent if name == b"." or parent == ROOT else places.get_place(parent)[0]
            return node, self.stat(node)
        name = places.check_name(parent, name)
        folder = places.open_folder(parent)
        st = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
        node = places.remember(parent, name, st)
        return node, self.show_stat(node, st)

    def _made(self, parent: int, name: bytes, folder: int) -> tuple[int, Stat]:
        st = os.stat(name, dir_fd=folder, follow_symlinks=False)
        node = self._places.remember(parent, name, st)
        return node, self.show_stat(node, st)

    def mkdir(self, parent: int, name: bytes, mode: int) -> tuple[int, Stat]:
        """A directory."""
        name = self._named(parent, name)
        folder = self._places.open_folder(parent)
        os.mkdir(name, mode, dir_fd=folder.fd)
        return self._made(parent, name, folder.fd)

    def mknod(self, parent: int, name: bytes, mode: int, device: int) -> tuple[int, Stat]:
        """A file, fifo, socket or device node."""
        name = self._named(parent, name)
        folder = self._places.open_folder(parent)
        os.mknod(name, mode, device, dir_fd=folder.fd)
        return self._made(parent, name, folder.fd)

    def symlink(self, parent: int, name: bytes, target: bytes) -> tuple[int, Stat]:
        """A symbolic link; its target is never read here."""
        name = self._named(parent, name)
        folder = self._places.open_folder(parent)
        os.symlink(target, name, dir_fd=folder.fd)
        return self._made(parent, name, folder.fd)

    def link(self, node: int, parent: int, name: bytes) -> tuple[int, Stat]:
        """Another name of a node."""
        name = self._named(parent, name)
        folder = self._places.open_folder(parent)
        with self._pinned(node) as fd:
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder.fd, follow_symlinks=True)
        # It has a name now; only what has none needs to be kept.
        self._kept.release(node)
        return self._made(parent, name, folder.fd)

    def unlink(self, parent: int, name: bytes) -> None:
        """Removes a name; a file that is open here is kept."""
        name = self._named(parent, name)
        folder = self._places.open_folder(parent)
        if not self._open:
            os.unlink(name, dir_fd=folder.fd)
            return
        with self._keeping(folder.fd, name):
            os.unlink(name, dir_fd=folder.fd)

    @contextmanager
    def _keeping(self, folder: int, name: bytes) -> Iterator[None]:
        """Around the removal of a name: its file, if open here, gets a kept name before, which goes if it fails."""
        file = self._open_under(folder, name) if self._open else None
        kept = file is not None and self._kept.keep(file.node, file.descriptor or 0)
        try:
            yield
        except BaseException:
            if kept and file is not None:
                self._kept.release(file.node)
            raise
        if file is not None and file.node not in self._open:
            # Closed meanwhile by another thread, which saw no kept name to remove.
            self._kept.release(file.node)

    def _open_under(self, folder: int, name: bytes) -> LocalFile | None:
        try:
            node = os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino + 1
        except OSError:
            return None
        with self._guard:
            files = self._open.get(node)
            return files[-1] if files else None

    def rmdir(self, parent: int, name: bytes) -> None:
        """Removes an empty directory."""
        name = self._named(parent, name)
        folder = self._places.open_folder(parent)
        node = os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_ino + 1
        os.rmdir(name, dir_fd=folder.fd)
        self._places.close_folder(node)

    def rename(self, parent: int, name: bytes, new_parent: int, new_name: bytes, flags: int) -> None:
        """As renameat2; a replaced file that is open here is kept."""
        name = self._named(parent, name)
        new_name = self._named(new_parent, new_name)
        old, new = self._places.open_folder(parent), self._places.open_folder(new_parent)
        if flags & system_calls.RENAME_EXCHANGE:
            system_calls.call_renameat2(old.fd, name, new.fd, new_name, flags)
            self._moved(new_parent, new_name, parent, name, old.fd)
        elif flags:
            system_calls.call_renameat2(old.fd, name, new.fd, new_name, flags)
        else:
            with self._keeping(new.fd, new_name):
                os.rename(name, new_name, src_dir_fd=old.fd, dst_dir_fd=new.fd)
        self._moved(parent, name, new_parent, new_name, new.fd)

    def _moved(self, parent: int, name: bytes, new_parent: int, new_name: bytes, folder: int) -> None:
        try:
            st = os.stat(new_name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        node = self._places.remember(new_parent, new_name, st)
        self._places.remove_place(node, (parent, name))

    # Attributes

    def show_stat(self, node: int, st: os.stat_result) -> Stat:
        """Attributes as clients are to see them: the names under OWN_FOLDER do not count."""
        if node in self._kept.nodes:
            return UnlinkedAttributes(st)
        return st

    def stat(self, node: int) -> Stat:
        """As lstat; of the open file if the node has no place any more."""
        try:
            if node == ROOT:
                return self._kept.show_root_stat(os.fstat(self.root))
            return self.show_stat(node, self._places.stat(node))
        except (OSError, UnknownNode):
            file = self._opened(node)
            if file is None:
                raise
            return file.stat()

    def _opened(self, node: int) -> LocalFile | None:
        with self._guard:
            files = self._open.get(node)
            return files[-1] if files else None

    @contextmanager
    def _pinned(self, node: int) -> Iterator[int]:
        """A descriptor of a node for calls through /proc/self/fd: of its place, else of its open file."""
        try:
            fd, _ = self._places.pin(node)
        except (OSError, UnknownNode):
            file = self._opened(node)
            if file is None:
                raise
            fd = file.pin()
        try:
            yield fd
        finally:
            os.close(fd)

    def change(self, node: int, change: Change, file: OpenFile | None) -> Stat:
        """Sets attributes: the owner first (that clears set-id bits), then mode, size and times."""
        if file is not None and file.descriptor is not None:
            set_descriptor_attributes(file.descriptor, None, change)
            return file.stat()
        with self._pinned(node) as fd:
            set_descriptor_attributes(fd, f"/proc/self/fd/{fd}", change)
            return self.show_stat(node, os.fstat(fd))

    def readlink(self, node: int) -> bytes:
        """Target of a symbolic link."""
        with self._pinned(node) as fd:
            return os.readlink(b"", dir_fd=fd)

    def access(self, node: int, mask: int) -> None:
        """As access(2)."""
        with self._pinned(node) as fd:
            if not os.access(f"/proc/self/fd/{fd}", mask, effective_ids=True):
                raise build_os_error(13)

    def get_attribute(self, node: int, name: bytes) -> bytes:
        """An extended attribute."""
        with self._pinned(node) as fd:
            return os.getxattr(f"/proc/self/fd/{fd}", name)

    def set_attribute(self, node: int, name: bytes, value: bytes, flags: int) -> None:
        """Sets one. Access control lists are refused: the client's kernel would not heed them."""
        if name.startswith(_ACL):
            raise build_os_error(EOPNOTSUPP)
        with self._pinned(node) as fd:
            os.setxattr(f"/proc/self/fd/{fd}", name, value, flags)

    def attribute_names(self, node: int) -> list[bytes]:
        """Names of the extended attributes."""
        with self._pinned(node) as fd:
            return [os.fsencode(name) for name in os.listxattr(f"/proc/self/fd/{fd}")]

    def remove_attribute(self, node: int, name: bytes) -> None:
        """Removes one."""
        with self._pinned(node) as fd:
            os.removexattr(f"/proc/self/fd/{fd}", name)

    # Open files

    def _file(self, node: int, flags: int, fd: int) -> LocalFile:
        file = LocalFile(self, node, flags, fd)
        with self._guard:
            files = self._open.get(node)
            if files is None:
                self._open[node] = [file]
            else:
                files.append(file)
        return file

    def drop_file(self, file: LocalFile) -> None:
        """A file was closed: with the last one of a node its kept name goes."""
        with self._guard:
            files = self._open.get(file.node)
            if files is None or file not in files:
                return
            files.remove(file)
            if files:
                return
            del self._open[file.node]
        self._kept.release(file.node)

    def create(self, parent: int, name: bytes, flags: int, mode: int) -> tuple[int, Stat, OpenFile]:
        """Opens with O_CREAT."""
        name = self._named(parent, name)
        folder = self._places.open_folder(parent)
        try:
            fd = os.open(name, flags & _TAKEN | _ADDED | _MAKE, mode, dir_fd=folder.fd)
        except FileExistsError:
            if flags & os.O_EXCL:
                raise
            # Made by another client since the kernel looked: opened like any file, so never a device or a link.
            node, st = self.lookup(parent, name)
            if not stat.S_ISREG(st.st_mode):
                raise build_stale_os_error() from None
            file = self.open(node, flags)
            return node, file.stat(), file
        made = os.fstat(fd)
        node = self._places.remember(parent, name, made)
        return node, made, self._file(node, flags & _TAKEN, fd)

    def open(self, node: int, flags: int) -> OpenFile:
        """Opens a node."""
        wanted, flags = flags, flags & _TAKEN
        if node in self._places.special:
            raise build_os_error(ENXIO)
        if node == ROOT:
            raise build_os_error(EISDIR)
        places = self._places
        if node in self._open and not places.has_node(node):
            return self._again(node, flags)  # without a name, and opened first at a forwarder that was lost
        for place in places.list_places(node):
            folder = places.open_folder(place[0])
            try:
                fd = self._try(place[1], wanted, folder.fd)
            except FileNotFoundError:
                places.remove_place(node, place)
                continue
            st = os.fstat(fd)
            if st.st_ino + 1 == node and st.st_dev == places.device and stat.S_ISREG(st.st_mode):
                try:
                    if flags & os.O_TRUNC:
                        # Only now that it is known to be the right file.
                        os.truncate(f"/proc/self/fd/{fd}", 0)
                except BaseException:
                    os.close(fd)
                    raise
                return self._file(node, flags, fd)
            os.close(fd)
            if stat.S_ISDIR(st.st_mode):
                raise build_os_error(EISDIR)
            places.remove_place(node, place)
        return self._again(node, flags)

    def _try(self, name: bytes, flags: int, folder: int) -> int:
        wanted = flags & _TAKEN & ~os.O_TRUNC | _ADDED
        try:
            return os.open(name, wanted, dir_fd=folder)
        except PermissionError:
            if wanted & os.O_NOATIME:
                return os.open(name, wanted & ~os.O_NOATIME, dir_fd=folder)
            if flags & (TO_RUN | os.O_ACCMODE | os.O_TRUNC) != TO_RUN:
                raise
        # A program its user may run but not read: the kernel of the client reads it to run it.
        path = os.open(name, PIN, dir_fd=folder)
        try:
            if not os.access(f"/proc/self/fd/{path}", os.X_OK, effective_ids=True):
                raise build_os_error(EACCES)
            with forwarder_identity:
                return os.open(f"/proc/self/fd/{path}", wanted & ~os.O_NOFOLLOW)
        finally:
            os.close(path)

    def _again(self, node: int, flags: int) -> OpenFile:
        """Opens a file without a place that is open already, as /proc/self/fd of a client does."""
        file = self._opened(node)
        if file is None:
            raise build_stale_os_error()
        pinned = file.pin()
        try:
            return self._file(node, flags, os.open(f"/proc/self/fd/{pinned}", flags | os.O_CLOEXEC))
        finally:
            os.close(pinned)

    def create_temporary(self, parent: int, flags: int, mode: int) -> tuple[int, Stat, OpenFile]:
        """O_TMPFILE."""
        folder = self._places.open_folder(parent)
        lasting = flags & os.O_EXCL
        made = flags & _TAKEN & ~os.O_TRUNC | system_calls.O_TMPFILE | lasting | os.O_CLOEXEC
        fd = os.open(".", made, mode, dir_fd=folder.fd)
        st = os.fstat(fd)
        node = st.st_ino + 1
        file = self._file(node, flags & _TAKEN, fd)
        if flags & _TMPFILE and not lasting:
            self._kept.keep(node, fd)
        return node, st, file

    def name_temporary(self, file: OpenFile, parent: int, name: bytes) -> tuple[int, Stat]:
        """The first name of a file that `create_temporary` made; as `link`, with less to ask."""
        name = self._named(parent, name)
        folder = self._places.open_folder(parent)
        assert file.descriptor is not None
        os.link(f"/proc/self/fd/{file.descriptor}", name, dst_dir_fd=folder.fd, follow_symlinks=True)
        made = os.fstat(file.descriptor)
        return self._places.remember(parent, name, made), made

    def reopen(self, node: int, flags: int) -> OpenFile:
        """Opens a node again, a kept one too. Its owner may, whatever has become of its mode since it was opened."""
        flags &= _TAKEN & ~os.O_TRUNC
        try:
            return self.open(node, flags)
        except PermissionError:
            with self._pinned(node) as path:
                return self._file(node, flags, reopen_descriptor(path, flags))
        except (OSError, UnknownNode) as error:
            try:
                path = self._kept.pin(node)
            except FileNotFoundError:
                raise error from None
        try:
            file = self._file(node, flags, reopen_descriptor(path, flags))
        finally:
            os.close(path)
        self._kept.nodes.add(node)
        return file

    # Directories and the whole

    def list_entries(self, node: int) -> Sequence[Entry]:
        """Names in a directory."""
        folder = self._places.open_folder(node)
        fd = os.open(".", _LIST, dir_fd=folder.fd)
        try:
            found = system_calls.call_getdents(fd)
        finally:
            os.close(fd)
        if node != ROOT:
            return [Entry(name, inode + 1, kind) for name, inode, kind in found]
        here = self._places.root_inode
        return [
            Entry(name, (here if name == b".." else inode) + 1, kind)
            for name, inode, kind in found
            if name != OWN_FOLDER
        ]

    def sync_directory(self, node: int) -> None:
        """As fsync of a directory."""
        folder = self._places.open_folder(node)
        fd = os.open(".", _LIST, dir_fd=folder.fd)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync(self) -> None:
        """As syncfs."""
        fd = os.open(".", _LIST, dir_fd=self.root)
        try:
            system_calls.call_syncfs(fd)
        finally:
            os.close(fd)

    def statfs(self) -> os.statvfs_result:
        """As statvfs."""
        return os.statvfs(self.root)

    def place(self, node: int, steps: Sequence[tuple[int, bytes]]) -> None:
        """Tells where a node is; every step is looked up."""
        with forwarder_identity:
            expected = ROOT
            for parent, name in steps:
                if parent != expected:
                    raise build_stale_os_error()
                try:
                    expected = self.lookup(parent, name)[0]
                except (FileNotFoundError, NotADirectoryError, UnknownNode) as error:
                    raise build_stale_os_error() from error
            if expected != node:
                raise build_stale_os_error()

    def forget(self, nodes: Sequence[int]) -> None:
        """Drops what is known of nodes."""
        self._places.forget(nodes)

    def close(self) -> None:
        """Ends the tree. Open files stay usable until they are closed."""
        self.locks.close()
        self._kept.close()
        self._places.close()
        _Umask.give_back()
