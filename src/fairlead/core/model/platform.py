"""The platform: what a site knows of its machine, in one TOML file. Used to say what a rate is worth.

Everything is optional; what is None is not assumed. The reference rates of `Reference` are defaults for machines
that were never described, and every cost derived from them says so.
"""

from __future__ import annotations

import msgspec


class FileSystem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file system by mount point: peak rates in bytes/s, native block (stripe, record) size in bytes."""

    mount: str
    kind: str | None = None
    read_bandwidth_bytes_per_s: float | None = None
    write_bandwidth_bytes_per_s: float | None = None
    process_bandwidth_bytes_per_s: float | None = None
    block_bytes: int | None = None
    targets: int | None = None
    shared: bool | None = None


class Layer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A class of identical components on the I/O path: `forwarder`, `target`, `mds`, `burst_buffer`, `link`."""

    kind: str
    count: int
    bandwidth_bytes_per_s: float | None = None
    iops: float | None = None
    mdops: float | None = None


class Platform(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A machine. `nodes` is the number of compute nodes."""

    name: str = "unnamed"
    nodes: int | None = None
    cores_per_node: int | None = None
    file_systems: list[FileSystem] = []
    layers: list[Layer] = []


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What one process reaches with large sequential requests when nothing better is known.

    80-100 MB/s a node through a forwarding layer (Beacon, TOS 2023, section 2) is the lower end, a few GB/s from a
    client cache the upper; 1 GiB/s sits between and is only used when the trace itself holds no large requests. All
    processes together are not assumed to reach more than 10 GiB/s, unless the run itself did.
    """

    process_bandwidth_bytes_per_s: float = float(1 << 30)
    total_bandwidth_bytes_per_s: float = float(10 << 30)
    large_request_bytes: int = 1 << 20
