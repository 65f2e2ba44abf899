"""One real centre for the tests of this folder: it takes ten seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from real_site import Site, site
from slurm_cluster import lacking


@pytest.fixture(scope="package")
def centre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Slurm with four nodes, a server, a forwarder, mounts and agents."""
    reason = lacking(machines=True)
    if reason is not None:
        pytest.skip(reason)
    with site(tmp_path_factory.mktemp("centre")) as made:
        yield made
