"""The life of a mount process: mount, serve, answer on the control socket, end cleanly. In the background or not.

    start           begin: trace, tree or connection, /dev/fuse, control socket, thread that serves
      |             (fails: `end` gives back what there is, the error goes to the caller)
      v
    serving         loop: control socket; the map file is checked every second
      |             ends by: SIGTERM, SIGINT, `stop`, or the mount is gone
      v
    leaving         unmount, tried for 2 s while files are open, then lazily
      |
      v
    ended           end: stop serving, write the trace, remove the control socket, close the device

Not here: what is served (`local`, `relay`), how the background is entered (`daemonize`).
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fairlead.core.clock import monotonic_s, now_ns, sleep_s
from fairlead.core.errors import ConfigError, FairleadError, MountError
from fairlead.steer.forwarding.mount.process.control import (
    Control,
    ControlRequest,
    MountRecord,
    build_mount_log_path,
    read_start_ticks,
)
from fairlead.steer.forwarding.mount.process.mount_options import (
    MountOptions,
    build_dial_of_options,
    build_recording_of_options,
    check_mount_options,
    list_addresses_of_options,
    read_token_of_options,
    resolve_source_option,
)
from fairlead.steer.fs.fuse import negotiation, passthrough
from fairlead.steer.fs.fuse.abi import Init
from fairlead.steer.fs.fuse.device import BusyError, Device, open_fuse_device
from fairlead.steer.fs.fuse.mount_table import FS_TYPE, find_in_mount_table, resolve_mountpoint

if TYPE_CHECKING:
    from fairlead.steer.fs.client.job_identity import Jobs
    from fairlead.steer.fs.trace.recorder import Trace

_PATIENCE_S = 2.0
"""How long a mount that is asked to end waits for its files to be closed."""
_SWITCH_S = 0.0005
"""How long a thread that computes (the trace's) may keep the interpreter from the one that serves."""
_MAP_S = 1.0
"""How often a map file is looked at."""
_MAP_AGAIN_S = 10.0
"""When a forwarder it names that refused the mount is tried again."""
_HANGUP = bytes([signal.SIGHUP])


class MountServer(Protocol):
    """What a mount process runs: `LocalMount`, `RelayMount`."""

    def run(self) -> None:
        """Serves until the mount is gone."""
        ...

    def stop(self) -> None:
        """Begins nothing new."""
        ...

    def describe(self) -> dict[str, object]:
        """State and counts, for the control socket."""
        ...


def serve_mount(options: MountOptions, ready: Callable[[], None], say: Callable[[str], None]) -> None:
    """Mounts, calls `ready`, serves until the mount is gone or SIGTERM or SIGINT arrives. For the main thread. Raises
    `FairleadError` when mounting fails."""
    process = _MountProcess(options, say)
    sys.setswitchinterval(_SWITCH_S)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # A signal that arrives while mounting takes effect once mounted: it must not leave a dead mount.
    before = signal.set_wakeup_fd(process.wake_up.fileno(), warn_on_full_buffer=False)
    reactions = {number: signal.signal(number, _noted) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        process.begin()
        process.loop(ready)
    finally:
        process.end()
        if before >= 0:
            signal.set_wakeup_fd(before)
        for number, reaction in reactions.items():
            signal.signal(number, reaction)


class _MountProcess:
    """What a mount process has open, and its ending in the right order."""

    def __init__(self, options: MountOptions, say: Callable[[str], None]) -> None:
        self._options = options
        self._say = say
        self._mountpoint = resolve_mountpoint(options.mountpoint)
        self._endings: list[Callable[[], None]] = []
        self._device: Device | None = None
        self._served: MountServer | None = None
        self._control: Control | None = None
        self._tracing: Trace | None = None
        self._failure: BaseException | None = None
        self._ended, self.wake_up = socket.socketpair()
        self.wake_up.setblocking(False)
        self._over = threading.Event()
        self._remapping = threading.Lock()
        self._named: list[str] = []

    def begin(self) -> None:
        """Mounts, starts the thread that serves and the control socket."""
        options = self._options
        check_mount_options(options)
        trace, jobs = build_recording_of_options(options)
        if trace is not None:
            self._tracing = trace
            trace.start()
            self._endings.append(trace.close)
        if options.source is not None:
            self._local(options.source, trace, jobs)
        else:
            self._relayed(trace, jobs)
        assert self._device is not None
        if self._device.recovered:
            self._say(f"{self._mountpoint}: took a dead mount off first")
        record = MountRecord(
            mountpoint=self._mountpoint,
            source=options.source or ",".join(list_addresses_of_options(self._options)),
            pid=os.getpid(),
            born=read_start_ticks(os.getpid()),
            started_ns=now_ns(),
            log=str(build_mount_log_path(self._mountpoint)),
        )
        self._control = Control(record, self._perform)
        self._endings.append(self._control.close)
        self._thread = threading.Thread(target=self._serve, name="mount", daemon=True)
        self._thread.start()
        if options.map_file is not None:
            threading.Thread(target=self._follow_map, args=(options.map_file,), name="map file", daemon=True).start()

    def _local(self, source: str, trace: Trace | None, jobs: Jobs) -> None:
        from fairlead.steer.forwarding.mount.local.local_mount import LocalMount
        from fairlead.steer.fs.trace.shared_trace import SharedTrace
        from fairlead.steer.fs.trees.open_tree import open_export

        options = self._options
        plain = not source.startswith(("targets:", "slow:"))
        spec = resolve_source_option(source, self._mountpoint) if plain else source
        tree = open_export(spec)
        self._endings.append(tree.close)
        handing = plain and options.passthrough and not options.cache and passthrough.supports_passthrough()
        session = self._mount(spec, Init.PASSTHROUGH if handing else Init(0))
        if session.passthrough and trace is not None:
            self._say("passthrough: reads and writes go in the kernel, the trace holds opens and closes only")
        telling = SharedTrace(trace, jobs) if trace is not None else None
        served = self._served = LocalMount(self._opened, session, tree, telling, cache=options.cache)
        self._endings.append(served.close)

    def _relayed(self, trace: Trace | None, jobs: Jobs) -> None:
        from fairlead.steer.forwarding.mount.relay.passthrough_files import (
            PASSTHROUGH_NOTICE,
            PassthroughFiles,
            explain_no_passthrough,
        )
        from fairlead.steer.forwarding.mount.relay.relay_mount import RelayMount

        options = self._options
        dial = build_dial_of_options(options)
        self._named = [str(address) for address in dial.addresses]
        connection = dial.connect_any()
        handing = options.passthrough and not options.cache and passthrough.supports_passthrough()
        try:
            session = self._mount(str(connection.address), Init.PASSTHROUGH if handing else Init(0))
        except BaseException:
            connection.close()
            raise
        passthrough_files = None
        if options.passthrough:
            why = explain_no_passthrough(connection, session, cache=options.cache)
            if session.passthrough:  # another forwarder may send them
                passthrough_files = PassthroughFiles(self._opened.fd, self._say)
            elif handing:
                connection.close()
                dial.disable_descriptors()
                connection = dial.connect_any()
            self._say(f"passthrough: none, {why}" if why else PASSTHROUGH_NOTICE)
        served = self._served = RelayMount(
            self._opened,
            dial,
            connection,
            trace=trace,
            jobs=jobs,
            passthrough=passthrough_files,
            patience_s=options.patience_s,
            say=self._say,
        )
        if options.token is not None:
            from fairlead.steer.forwarding.mount.recovery.token_renewal import TokenRenewal

            renewal = served.failover.token = TokenRenewal(served, options.token, read_token_of_options, self._over)
            renewal.start()
        if options.cache:
            from fairlead.steer.forwarding.mount.relay.lease_returns import LeaseReturns

            served.failover.lease_returns = LeaseReturns(served)

    def _mount(self, source: str, wanted: Init) -> negotiation.Session:
        options = self._options
        device = open_fuse_device(
            options.mountpoint,
            read_only=options.read_only,
            allow_other=options.allow_other,
            fs_name=f"fairlead:{source}",
        )
        self._device = device
        return negotiation.answer_fuse_init(device.fd, extra=wanted | (negotiation.CACHED if options.cache else 0))

    @property
    def _opened(self) -> Device:
        assert self._device is not None
        return self._device

    # Serving

    def _serve(self) -> None:
        assert self._served is not None
        try:
            self._served.run()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            with suppress(OSError):
                self.wake_up.send(b"e")

    def loop(self, ready: Callable[[], None]) -> None:
        """Returns when the mount is gone, or a signal or a request ends it. Raises what broke the mount."""
        assert self._control is not None
        ready()
        with selectors.DefaultSelector() as selector:
            selector.register(self._ended, selectors.EVENT_READ)
            selector.register(self._control, selectors.EVENT_READ)
            while True:
                events = selector.select()
                ended = any(key.fileobj is self._ended for key, _ in events)
                # SIGHUP asks for the map file to be read again; it is looked at every second anyway.
                if ended and self._ended.recv(64).strip(_HANGUP):
                    break
                if any(key.fileobj is self._control for key, _ in events):
                    self._control.answer()
        self._leave()
        if self._failure is not None:
            raise self._failure

    def _leave(self) -> None:
        """Unmounts: at once when no file is open, lazily after _PATIENCE_S."""
        assert self._device is not None
        deadline = monotonic_s() + _PATIENCE_S
        while self._thread.is_alive() and self._ours():
            lazy = monotonic_s() > deadline
            try:
                self._device.unmount(lazy=lazy)
            except BusyError:
                sleep_s(0.05)
                continue
            except MountError as error:
                if self._ours():
                    self._say(str(error))
                break
            if lazy:
                self._device.abort()
            break
        if self._failure is not None and self._ours():
            with suppress(MountError):
                self._device.unmount(lazy=True)

    def _ours(self) -> bool:
        mount = find_in_mount_table(self._mountpoint)
        return mount is not None and mount.fs_type == FS_TYPE

    def end(self) -> None:
        """Closes everything, also what a failed `begin` left."""
        self._over.set()
        if self._served is not None:
            self._served.stop()
            self._thread.join(timeout=_PATIENCE_S)
        elif self._device is not None:
            with suppress(MountError):
                self._device.unmount(lazy=True)
        while self._endings:
            self._endings.pop()()
        if self._device is not None:
            self._device.close()
        signal.set_wakeup_fd(-1)
        self.wake_up.close()
        self._ended.close()

    # Control

    def _perform(self, request: ControlRequest) -> Any:
        """Carries out a request of the control socket."""
        assert self._served is not None
        what = request.get("do")
        if what == "status":
            return {**self._served.describe(), "pid": os.getpid()}
        if what == "stop":
            self.wake_up.send(b"s")
            return {}
        if what == "remap":
            addresses = request.get("addresses")
            if not isinstance(addresses, list) or not addresses or not all(isinstance(one, str) for one in addresses):
                raise MountError("no addresses in the request", where=self._mountpoint)
            return {"forwarder": self._remap(addresses)}
        if what == "record":
            if self._tracing is None:
                raise MountError("the mount records nothing", where=self._mountpoint, remedy="mount with --spool")
            self._tracing.on = bool(request.get("on", True))
            return {"on": self._tracing.on}
        raise MountError(f"cannot do {what!r}", where=self._mountpoint, remedy="status, remap, record or stop")

    def _remap(self, addresses: list[str]) -> str:
        remap = getattr(self._served, "remap", None)
        if remap is None:
            raise MountError("a local mount has no forwarder", where=self._mountpoint, remedy="unmount it, mount again")
        with self._remapping:
            return str(remap(addresses))

    def _follow_map(self, path: Path) -> None:
        """Moves the mount when its map file names other forwarders; a broken or absent file changes nothing."""
        # Compared with what the mount started with: the file may have changed since it was read.
        named, said, pause_s = self._named, "", _MAP_S
        seen: tuple[int, int, int] | None = None
        while not self._over.wait(pause_s):
            now = _stamp(path)
            if now is None or now == seen:
                continue
            pause_s = _MAP_S
            try:
                addresses = list_addresses_of_options(self._options)
                if addresses != named:
                    self._say(f"{path} has changed: now at {self._remap(addresses)}")
                    named = addresses
                seen, said = now, ""
            except FairleadError as error:  # half written, or the forwarder has not started: tried again
                pause_s = _MAP_S if isinstance(error, ConfigError) else _MAP_AGAIN_S
                if str(error) != said:
                    said = str(error)
                    self._say(said)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes when the file does; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _noted(_number: int, _frame: object) -> None:
    """The wake-up descriptor has the signal's number."""


def print_mount_message(text: str) -> None:
    """A line for the caller, or for the log of a mount in the background."""
    print(f"fairlead mount: {text}", file=sys.stderr, flush=True)
