"""Names of operations as Lustre counts them: which are metadata, which are data, which are none. Not here: texts."""

OST_METADATA = frozenset(
    (
        "getattr",
        "setattr",
        "punch",
        "sync",
        "destroy",
        "create",
        "statfs",
        "get_info",
        "set_info",
        "set_info_async",
        "quotactl",
        "prealloc",
        "fallocate",
        "seek",
        "lseek",
    )
)
"""What an OST does besides moving data."""

OST_OTHER = frozenset(
    (
        "read_bytes",
        "write_bytes",
        "read",
        "write",
        "preprw",
        "commitrw",
        "preprw_read",
        "preprw_write",
        "commitrw_read",
        "commitrw_write",
        "connect",
        "reconnect",
        "disconnect",
        "ping",
        "llog_init",
        "llog_connect",
        "llog_finish",
        "notify",
        "precleanup",
        "iocontrol",
        "health_check",
        "pin",
        "unpin",
        "import_event",
        "init_export",
        "destroy_export",
        "fid_init",
        "fid_fini",
        "fid_alloc",
        "pool_new",
        "pool_rem",
        "pool_add",
        "pool_del",
        "getref",
        "putref",
        "ladvise",
        "add_conn",
        "del_conn",
        "extent_cache_hit",
    )
)
"""Data and its preparation, and upkeep of connections: known, and no metadata operation."""

MDT_OPS = (
    "open",
    "close",
    "mknod",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "rename",
    "getattr",
    "setattr",
    "getxattr",
    "setxattr",
    "statfs",
    "sync",
    "samedir_rename",
    "crossdir_rename",
    "parallel_rename_file",
    "parallel_rename_dir",
    "punch",
    "migrate",
    "fallocate",
    "readdir",
    "create",
    "other",
)
"""Operations of an MDT, in the order rows hold them; `other` are those with a name not known here.
samedir_rename and crossdir_rename say of what kind the renames were, and are counted besides `rename`."""

MDT_DATA = frozenset(("read_bytes", "write_bytes", "read", "write"))
"""Data on an MDT (files that begin there)."""

MDT_UPKEEP = frozenset(("connect", "reconnect", "disconnect", "ping", "statfs_async", "tgtreg", "fid_alloc"))

CLIENT_METADATA = frozenset(
    (
        "open",
        "close",
        "getattr",
        "setattr",
        "create",
        "mknod",
        "link",
        "unlink",
        "symlink",
        "mkdir",
        "rmdir",
        "rename",
        "readdir",
        "statfs",
        "truncate",
        "getxattr",
        "setxattr",
        "listxattr",
        "removexattr",
        "fallocate",
    )
)
"""Calls of programs that a mount counts as metadata."""

CLIENT_OTHER = frozenset(
    (
        "read_bytes",
        "write_bytes",
        "read",
        "write",
        "osc_read",
        "osc_write",
        "brw_read",
        "brw_write",
        "ioctl",
        "mmap",
        "page_fault",
        "page_mkwrite",
        "seek",
        "fsync",
        "flock",
        "alloc_inode",
        "getxattr_hits",
        "inode_permission",
        "dirty_pages_hits",
        "dirty_pages_misses",
        "opencount",
        "openclosetime",
        "lockless_read_bytes",
        "lockless_write_bytes",
        "lockless_truncate",
        "direct_read",
        "direct_write",
        "drop_inode",
        "hybrid_noswitch",
        "hybrid_writesize_switch",
        "hybrid_readsize_switch",
        "read_ahead",
        "heat",
        "hybrid_read_bytes",
        "hybrid_write_bytes",
    )
)
"""Data, memory and what the kernel does inside a call: known, and no metadata call of a program."""

READ_AHEAD_PARTS = frozenset(
    (
        "hits",
        "misses",
        "readpage not consecutive",
        "miss inside window",
        "failed grab_cache_page",
        "failed lock match",
        "read but discarded",
        "zero length file",
        "zero size window",
        "read-ahead to EOF",
        "hit max r-a issue",
        "wrong page from grab_cache_page",
        "failed to reach end",
        "async readahead",
        "failed to fast read",
        "mmap range read",
        "hit-max-r-a issue",
    )
)

INTENTS = frozenset(
    (
        "close",
        "create",
        "enqueue",
        "getattr",
        "intent_lock",
        "link",
        "rename",
        "setattr",
        "fsync",
        "read_page",
        "unlink",
        "setxattr",
        "getxattr",
        "intent_getattr_async",
        "revalidate_lock",
        "done_writing",
        "null_inode",
        "getattr_name",
        "read_folio",
        "readpage",
        "sync",
    )
)
"""md_stats of lmv and mdc: requests of a client to its metadata servers."""
