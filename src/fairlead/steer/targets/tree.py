"""A tree striped over storage targets: names and attributes in a store, data in objects. See docs/decisions/0010 and
docs/reference/targets-layout.md.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from fairlead.core.clock import now_ns
from fairlead.steer.fs.os_errors import build_os_error
from fairlead.steer.fs.trees import system_calls, thread_identity
from fairlead.steer.fs.trees.base import NOW, OWN_FOLDER, ROOT, Change, Entry, OpenFile, UnknownNode
from fairlead.steer.targets import config as configured
from fairlead.steer.targets import garbage, inode_data, layouts, namespace, permissions, space
from fairlead.steer.targets.config import TargetsFile
from fairlead.steer.targets.file_state import FileState, measure_file_state
from fairlead.steer.targets.inode import ROOT_INODE, Attributes, Inode, Who
from fairlead.steer.targets.name_cache import SeenNames
from fairlead.steer.targets.namespace import Changes, New
from fairlead.steer.targets.objects import Counters, TargetSet
from fairlead.steer.targets.open_file import StripedFile
from fairlead.steer.targets.records import CAPABILITY, Records
from fairlead.steer.targets.store import Store

_VALUE_MAX = 1 << 16
P = ParamSpec("P")
R = TypeVar("R")


def _to_node(ino: int) -> int:
    """Node number of an inode."""
    return ROOT if ino == ROOT_INODE else ino + 1


def _to_inode(node: int) -> int:
    """Inode of a node number."""
    return ROOT_INODE if node == ROOT else node - 1


def _who() -> Who | None:
    """The thread's caller, or None where nothing is checked."""
    uid, gid = thread_identity.get_thread_user()
    return (
        None
        if uid == 0 or not thread_identity.enabled
        else Who(uid, gid, thread_identity.find_thread_identity_groups(uid, gid))
    )


class TargetsTree:
    """See `FileTree`. `placed(node, targets, path)`: a file got its targets; its path is "" where it is not known."""

    clears_set_id = False

    def __init__(self, name: str, config: TargetsFile, store: Store, *, orphan_grace_s: float = 60.0) -> None:
        self.name = name
        self.store = store
        self.targets = TargetSet(config)
        self.targets.prepare(store.tree, store.readonly)
        self._own_path = os.path.join(config.targets[0].path, "own")
        self.placed: Callable[[int, list[str], str], None] | None = None
        self._seen_names = SeenNames()
        self._states: dict[int, FileState] = {}
        self._guard = threading.Lock()
        self._sweeper = garbage.Sweeper(store, self.targets, orphan_grace_s)

    def open_own_folder(self, name: bytes) -> int:
        """A descriptor of a folder that all forwarders of the tree share, for what must outlive them: on the first
        target."""
        path = os.path.join(os.fsencode(self._own_path), name)
        with thread_identity.forwarder_identity:
            os.makedirs(path, mode=0o700, exist_ok=True)
            return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def find_target_name(self, node: int, offset: int) -> str | None:
        """Name of the target that holds a byte of an open file; None if it is not open or has no data yet."""
        state = self._states.get(_to_inode(node))
        target = None if state is None else state.find_target(offset)
        return None if target is None else target.name

    def list_target_rates(self) -> dict[str, int]:
        """Bytes/s each target with a `max_perf` is held to."""
        return {target.name: target.rate for target in self.targets.by_name.values() if target.rate is not None}

    def disable_pacing(self) -> None:
        """From now on the caller holds requests back by `find_target_name` and `list_target_rates`; none waits here."""
        self.targets.paced_outside = True

    def report_targets(self) -> list[space.TargetReport]:
        """What was done on each target since the tree was opened, and its space."""
        return space.report_target_space(self.targets)

    def take_by_job(self) -> dict[str, dict[str, Counters]]:
        """By target, then job: what was done since the last call (see `thread_identity.set_thread_job`)."""
        return {name: target.take_by_job() for name, target in self.targets.by_name.items()}

    def _read(self, act: Callable[Concatenate[Records, int, P], R], ino: int, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return self.store.read(act, ino, *args, **kwargs)
        except OSError as error:
            raise self._unknown(error, ino, *args) from error

    def _write(self, act: Callable[Concatenate[Records, int, P], R], ino: int, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return self.store.write(act, ino, *args, **kwargs)
        except OSError as error:
            raise self._unknown(error, ino, *args) from error

    def _unknown(self, error: OSError, *args: object) -> Exception:
        """UnknownNode for the inode among the arguments that does not exist."""
        if error.errno == errno.ESTALE:
            for ino in args[:3]:
                if isinstance(ino, int) and self.store.read(inode_data.find_inode, ino) is None:
                    return UnknownNode(_to_node(ino))
        return error

    # -- names ---------------------------------------------------------------------------------------------------

    def _answer(self, inode: Inode) -> tuple[int, Attributes]:
        return _to_node(inode.ino), self._attributes(inode)

    def _named(self, parent: int, name: bytes, inode: Inode) -> tuple[int, Attributes]:
        if self.placed is not None:
            self._seen_names.record_name(_to_inode(parent), name, inode)
        return self._answer(inode)

    def _attributes(self, inode: Inode) -> Attributes:
        if not inode.is_file:
            return Attributes(inode, inode.size, 8 if inode.is_directory else 0, inode.mtime)
        state = self._states.get(inode.ino)
        if state is not None:
            return state.stat(inode)
        return Attributes(inode, *measure_file_state(inode, lambda index: self._look(inode, index)))

    def _look(self, inode: Inode, index: int) -> os.stat_result | None:
        target = self.targets.find_targets(inode.targets)[index]
        try:
            with thread_identity.forwarder_identity:
                return os.stat(target.get_object_path(inode.ino, index))
        except OSError as error:
            now = self.store.read(inode_data.find_inode, inode.ino)
            if now is not None and now.nlink > 0:  # it was not removed in the meantime
                target.translate_error(inode.ino, index, error)
            return None

    def lookup(self, parent: int, name: bytes) -> tuple[int, Attributes]:
        """See `FileTree`."""
        _check_name(parent, name, lookup=True)
        return self._named(parent, name, self._read(namespace.look_up_namespace, _to_inode(parent), name, _who()))

    def stat(self, node: int) -> Attributes:
        """See `FileTree`."""
        return self._attributes(self._inode(node))

    def _inode(self, node: int) -> Inode:
        """The record; of one without a name only while it is open here."""
        ino = _to_inode(node)
        inode = self._read(namespace.get_namespace_inode, ino)
        if inode.nlink == 0 and ino not in self._states:
            raise build_os_error(errno.ESTALE)
        return inode

    def change(self, node: int, change: Change, file: OpenFile | None) -> Attributes:
        """See `FileTree`."""
        now = now_ns()
        who = _who()
        ino = _to_inode(node)
        inode = None
        if change.size is not None:
            inode = self._resize(ino, change.size, file, who)
        times = [change.atime_ns, change.mtime_ns]
        if change.mode is not None or change.uid is not None or change.gid is not None or times != [None, None]:
            atime, mtime = (now if time == NOW else time for time in times)
            hand = any(time not in (None, NOW) for time in times)
            wanted = Changes(change.mode, change.uid, change.gid, atime, mtime, not hand)
            inode = self._write(namespace.change_namespace_inode, ino, wanted, now, who)
            state = self._states.get(ino)
            if state is not None and mtime is not None:
                state.mark_retimed()
        return self._attributes(inode or self._inode(node))

    def _resize(self, ino: int, size: int, file: OpenFile | None, who: Who | None) -> Inode:
        if isinstance(file, StripedFile):
            file.truncate(size)
            return self._read(namespace.get_namespace_inode, ino)
        inode = self._read(namespace.get_namespace_inode, ino)
        if not inode.is_file:
            raise build_os_error(errno.EISDIR if inode.is_directory else errno.EINVAL)
        permissions.check_permission(inode, permissions.WRITE, who)
        state = self._acquire(ino)
        try:
            return state.truncate(size)
        finally:
            self._end(state)

    def readlink(self, node: int) -> bytes:
        """See `FileTree`."""
        inode = self._inode(node)
        if not stat.S_ISLNK(inode.mode):
            raise build_os_error(errno.EINVAL)
        return inode.link

    def create(self, parent: int, name: bytes, flags: int, mode: int) -> tuple[int, Attributes, StripedFile]:
        """See `FileTree`."""
        _check_name(parent, name)
        who = _who()
        new = self._new(stat.S_IFREG | mode & 0o7777)
        while True:
            try:
                inode = self._write(namespace.create_namespace_entry, _to_inode(parent), name, new, now_ns(), who)
            except FileExistsError:
                if flags & os.O_EXCL:
                    raise
                try:
                    inode = self._read(namespace.look_up_namespace, _to_inode(parent), name, who)
                except FileNotFoundError:
                    continue
                file = self.open(_to_node(inode.ino), flags & ~(os.O_CREAT | os.O_EXCL))
                return _to_node(inode.ino), file.stat(), file
            file = self._opened(inode, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))
            return *self._named(parent, name, inode), file

    def open(self, node: int, flags: int) -> StripedFile:
        """See `FileTree`."""
        inode = self._inode(node)
        if inode.is_directory:
            raise build_os_error(errno.EISDIR)
        if not inode.is_file:
            raise build_os_error(errno.ELOOP if stat.S_ISLNK(inode.mode) else errno.ENXIO)
        permissions.check_permission(inode, permissions.compute_open_permissions(flags), _who())
        file = self._opened(inode, flags & ~os.O_TRUNC)
        if flags & os.O_TRUNC:
            try:
                file.state.truncate(0)
            except BaseException:
                file.close()
                raise
        return file

    def reopen(self, node: int, flags: int) -> StripedFile:
        """See `FileTree`. Its owner may, whatever has become of the mode since."""
        inode = self._read(namespace.get_namespace_inode, _to_inode(node))
        if not inode.is_file:
            raise build_os_error(errno.ESTALE)
        who = _who()
        if not permissions.has_owner_permission(inode, who):
            permissions.check_permission(inode, permissions.compute_open_permissions(flags & os.O_ACCMODE), who)
        return self._opened(inode, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC), nameless=True)

    def _opened(self, inode: Inode, flags: int, *, nameless: bool = False) -> StripedFile:
        state = self._acquire(inode.ino, nameless=nameless)
        return StripedFile(_to_node(inode.ino), flags, state, self.store, self._end)

    def _acquire(self, ino: int, *, nameless: bool = False) -> FileState:
        """The shared data of an inode, held in the store as long as somebody uses it. ESTALE if nobody does here and it
        has no name (any more), unless `nameless`: its objects may be on their way out."""
        with self._guard:
            state = self._states.get(ino)
            if state is None:
                self.store.hold(ino)
                state = FileState(ino, self.store, self.targets, self._placed)
                try:
                    inode = (
                        self._write(inode_data.keep_inode, ino)
                        if nameless
                        else self._read(namespace.get_namespace_inode, ino)
                    )
                    state.doomed = inode.nlink == 0
                    if state.doomed and not nameless:
                        raise build_os_error(errno.ESTALE)
                    state.adopt(inode)
                except BaseException:
                    self.store.release(ino)
                    raise
                self._states[ino] = state
            state.users += 1
            return state

    def _placed(self, ino: int, targets: list[str]) -> None:
        if self.placed is not None:
            self.placed(_to_node(ino), targets, self._seen_names.find_path(ino))
            self._seen_names.has_targets(ino)

    def _end(self, state: FileState) -> None:
        with self._guard:
            state.users -= 1
            if state.users:
                return
            state.close()
            del self._states[state.ino]
            self.store.release(state.ino)
        if state.doomed:
            self._sweeper.reclaim(state.ino)

    def create_temporary(self, parent: int, flags: int, mode: int) -> tuple[int, Attributes, StripedFile]:
        """See `FileTree`."""
        new = self._new(stat.S_IFREG | mode & 0o7777)
        inode = self._write(namespace.create_outside_namespace, _to_inode(parent), new, now_ns(), _who())
        flags &= ~(os.O_TMPFILE | os.O_CREAT | os.O_EXCL | os.O_TRUNC)
        file = self._opened(inode, flags, nameless=True)
        file.state.doomed = True
        return _to_node(inode.ino), self._attributes(inode), file

    def mkdir(self, parent: int, name: bytes, mode: int) -> tuple[int, Attributes]:
        """See `FileTree`."""
        return self._made(parent, name, self._new(stat.S_IFDIR | mode & 0o7777))

    def mknod(self, parent: int, name: bytes, mode: int, device: int) -> tuple[int, Attributes]:
        """See `FileTree`. Device nodes are for root."""
        kind = stat.S_IFMT(mode) or stat.S_IFREG
        if kind in (stat.S_IFCHR, stat.S_IFBLK) and _who() is not None:
            raise build_os_error(errno.EPERM)
        return self._made(parent, name, self._new(kind | mode & 0o7777, rdev=device))

    def symlink(self, parent: int, name: bytes, target: bytes) -> tuple[int, Attributes]:
        """See `FileTree`."""
        return self._made(parent, name, self._new(stat.S_IFLNK | 0o777, link=target))

    def _new(self, mode: int, *, rdev: int = 0, link: bytes = b"") -> New:
        uid, gid = thread_identity.get_thread_user()
        return New(mode, uid, gid, rdev, link)

    def _made(self, parent: int, name: bytes, new: New) -> tuple[int, Attributes]:
        _check_name(parent, name)
        return self._named(
            parent, name, self._write(namespace.create_namespace_entry, _to_inode(parent), name, new, now_ns(), _who())
        )

    def link(self, node: int, parent: int, name: bytes) -> tuple[int, Attributes]:
        """See `FileTree`."""
        _check_name(parent, name)
        ino = _to_inode(node)
        with self._guard:
            state = self._states.get(ino)
            if state is not None:
                state.users += 1  # a file without a name (O_TMPFILE) must not be removed meanwhile
        try:
            inode = self._write(
                namespace.link_namespace_entry, ino, _to_inode(parent), name, now_ns(), _who(), state is not None
            )
            if state is not None:
                state.doomed = False
        finally:
            if state is not None:
                self._end(state)
        return self._answer(inode)

    def unlink(self, parent: int, name: bytes) -> None:
        """See `FileTree`."""
        _check_name(parent, name)
        inode = self._write(namespace.unlink_namespace_entry, _to_inode(parent), name, now_ns(), _who())
        if inode.is_file and inode.nlink == 0:
            self._nameless(inode)

    def _nameless(self, inode: Inode) -> None:
        with self._guard:
            state = self._states.get(inode.ino)
            if state is not None:
                state.doomed = True
                return
        self._sweeper.reclaim(inode.ino)

    def rmdir(self, parent: int, name: bytes) -> None:
        """See `FileTree`."""
        _check_name(parent, name)
        self._write(namespace.remove_namespace_directory, _to_inode(parent), name, now_ns(), _who())

    def rename(self, parent: int, name: bytes, new_parent: int, new_name: bytes, flags: int) -> None:
        """See `FileTree`."""
        _check_name(parent, name)
        _check_name(new_parent, new_name)
        ino, new_ino = _to_inode(parent), _to_inode(new_parent)
        done = self._write(namespace.rename_namespace_entry, ino, name, new_ino, new_name, flags, now_ns(), _who())
        self._seen_names.record_rename(ino, name, new_ino, new_name, exchange=bool(flags & namespace.EXCHANGE))
        if done.gone is not None:
            self._nameless(done.gone)

    def list_entries(self, node: int) -> Sequence[Entry]:
        """See `FileTree`."""
        found = self._read(namespace.list_namespace_entries, _to_inode(node), _who())
        return [Entry(name, _to_node(ino), kind) for name, ino, kind in found]

    def sync_directory(self, node: int) -> None:  # noqa: ARG002 - all names are in one store
        """See `FileTree`."""
        self.store.sync()

    def sync(self) -> None:
        """See `FileTree`."""
        with self._guard:
            for state in self._states.values():
                state.record()
        for target in self.targets.by_name.values():
            if target.is_mounted():
                with thread_identity.forwarder_identity:
                    descriptor = os.open(target.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    system_calls.call_syncfs(descriptor)
                finally:
                    os.close(descriptor)
        self.store.sync()

    def sweep(self, grace_s: float) -> int:
        """Removes files without a name that nobody has open and that lost it longer ago; how many."""
        return self._sweeper.sweep(grace_s)

    # -- the rest ------------------------------------------------------------------------------------------------

    def statfs(self) -> os.statvfs_result:
        """Sums over the file systems of the targets, each counted once."""
        return space.sum_space(self.targets)

    def get_attribute(self, node: int, name: bytes) -> bytes:
        """See `FileTree`."""
        if name == layouts.NAME:
            return layouts.format_layout(self._inode(node), self.targets)
        return self._read(namespace.get_namespace_attribute, _to_inode(node), name, _who())

    def set_attribute(self, node: int, name: bytes, value: bytes, flags: int) -> None:
        """See `FileTree`."""
        if name == layouts.NAME:
            layout = layouts.validate_layout(value, self.targets)
            self._write(namespace.set_namespace_layout, _to_inode(node), layout, now_ns(), _who())
            return
        if len(value) > _VALUE_MAX:
            raise build_os_error(errno.E2BIG)
        self._write(namespace.set_namespace_attribute, _to_inode(node), name, value, flags, now_ns(), _who())
        state = self._states.get(_to_inode(node))
        if state is not None and name == CAPABILITY:
            state.mark_retimed()

    def attribute_names(self, node: int) -> list[bytes]:
        """See `FileTree`."""
        inode = self._inode(node)
        names = self._read(namespace.list_namespace_attributes, inode.ino)
        return [*names, layouts.NAME] if inode.is_directory and inode.layout else names

    def remove_attribute(self, node: int, name: bytes) -> None:
        """See `FileTree`."""
        if name == layouts.NAME:
            if not self._inode(node).layout:
                raise build_os_error(errno.ENODATA)
            self._write(namespace.set_namespace_layout, _to_inode(node), "", now_ns(), _who())
            return
        self._write(namespace.remove_namespace_attribute, _to_inode(node), name, now_ns(), _who())

    def access(self, node: int, mask: int) -> None:
        """See `FileTree`."""
        permissions.check_permission(self._inode(node), mask, _who())

    def place(self, node: int, steps: Sequence[tuple[int, bytes]]) -> None:
        """See `FileTree`. A number is enough to find a node here; the steps are only checked."""
        at = ROOT
        try:
            for parent, name in steps:
                if parent != at:
                    raise build_os_error(errno.ESTALE)
                at = _to_node(self.store.read(namespace.look_up_namespace, _to_inode(at), name, None).ino)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise build_os_error(errno.ESTALE) from error
        if at != node:
            raise build_os_error(errno.ESTALE)

    def forget(self, nodes: Sequence[int]) -> None:
        """Nothing is kept of nodes."""

    def close(self) -> None:
        """See `FileTree`. Files still open are closed; unlinked ones wait for the sweep of the next start."""
        self._sweeper.close()
        with self._guard:
            for state in list(self._states.values()):
                state.close()
            self._states.clear()
        self.store.close()


def _check_name(parent: int, name: bytes, *, lookup: bool = False) -> None:
    if (name in (b".", b"..") and not lookup) or not name or b"/" in name or b"\0" in name:
        raise build_os_error(errno.EINVAL)
    if parent == ROOT and name == OWN_FOLDER:
        raise build_os_error(errno.ENOENT if lookup else errno.EPERM)


def open_tree(path: str, *, readonly: bool = False) -> TargetsTree:
    """The tree of a targets file, its store local or shared. Raises ConfigError, ForwardingError."""
    config = configured.read_config(path)
    return TargetsTree(f"targets:{path}", config, open_tree_store(config, readonly=readonly))


def open_tree_store(config: TargetsFile, *, readonly: bool = False) -> Store:
    """The store a targets file names. A local one that is only read may be in use by a forwarder."""
    if config.metadata.service is not None:
        from fairlead.steer.targets.remote import RemoteStore

        ca_file = config.metadata.ca_file
        return RemoteStore(config.metadata.service, config.metadata.token_file, ca_file=ca_file, readonly=readonly)
    from fairlead.steer.targets.store import LocalStore

    assert config.metadata.store is not None
    size = configured.parse_config_size(config.metadata.map_size)
    return LocalStore(config.metadata.store, map_size=size, readonly=readonly)
