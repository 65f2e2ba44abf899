"""`python as_user.py UID COMMAND...`: a command of fairlead as another user, also where that user may not read the
interpreter's own library (root's pyenv): everything outside fairlead is loaded before root is given up."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys


def main() -> int:
    """Runs the command line."""
    import fairlead.steer.forwarding as plane

    for module in pkgutil.walk_packages(plane.__path__, plane.__name__ + "."):
        importlib.import_module(module.name)
    for name in ("main", "mount", "umount", "mount_list", "forwarder"):
        importlib.import_module(f"fairlead.cli.{name}")
    for name in ("ascii", "idna", "latin_1", "utf_8"):
        importlib.import_module(f"encodings.{name}")
    # Some modules look at import who they are: fairlead itself is loaded again as that user.
    for name in [name for name in sys.modules if name.partition(".")[0] == "fairlead"]:
        del sys.modules[name]
    uid = int(sys.argv[1])
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    from fairlead.cli.main import main as command

    return command(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
