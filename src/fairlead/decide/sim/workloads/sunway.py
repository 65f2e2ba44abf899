"""What is published and fitted of TaihuLight's jobs, as figures. Not here: drawing jobs by them (`taihulight`).

- Sizes and run times: the 3,621 TaihuLight jobs of February 2018 (start, end, nodes). Nodes are of few favourite
  sizes (`NODES`); seconds are lognormal with mean 8.67 and deviation 3.31 of the logarithm (`tools/fit_population.py`).
- I/O modes, mean volumes, volumes by core-hours, the share of jobs with non-trivial I/O and with many metadata
  operations: Beacon (Yang et al., ACM TOS 2023, section 5).
- Spread of volumes about their mean, and of request sizes: 53,546 Darshan records of Summit, 2021. The logarithm of a
  job's bytes deviates by 5.1 (read) and 4.5 (written) over all applications; within one mode 1.6 is used, which keeps
  the published means reachable in a few thousand jobs.
"""

from __future__ import annotations

GB = 10**9
NONTRIVIAL_SHARE = 0.163
"""Jobs with non-trivial I/O among all."""
MODES = ("N-N", "N-M", "N-1", "1-1")
MODE_JOBS = (11_073, 324, 2_382, 16_251)
MEAN_READ_GB = (96.8, 36.2, 19.6, 33.0)
MEAN_WRITE_GB = (120.1, 63.2, 19.3, 142.3)
HIGH_MDOPS_SHARE = 0.0069
"""Jobs of more than 300 metadata operations a second among all."""
CORE_HOURS = (1e3, 1e4, 1e5, 1e6)
"""Bounds of the classes of core-hours; the last class has no end."""
CLASS_READ_GB = (8.1, 101.0, 167.0, 1173.0, 2011.0)
CLASS_WRITE_GB = (18.2, 83.9, 427.0, 616.0, 41459.0)
VOLUME_SIGMA = 1.6
RUN_TIME_LOG_MEAN, RUN_TIME_LOG_SIGMA = 8.67, 3.31
NODES = (
    (7, 0.367),
    (16, 0.205),
    (1, 0.133),
    (49, 0.088),
    (2, 0.033),
    (25, 0.022),
    (4, 0.021),
    (164, 0.013),
    (54, 0.011),
    (3, 0.010),
    (8, 0.009),
    (64, 0.009),
    (256, 0.008),
    (1024, 0.006),
    (100, 0.005),
    (512, 0.004),
)
"""Favourite job sizes with their shares; the rest is lognormal (2.29, 1.40)."""
NODES_LOG_MEAN, NODES_LOG_SIGMA = 2.29, 1.40
TRIVIAL_BYTES = 200_000_000
"""Beacon's bound: a job moves more, or its I/O is trivial."""
REQUESTS = (4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
REQUEST_SHARES = (0.10, 0.15, 0.20, 0.40, 0.15)
CORES_PER_NODE = 260
"""Of an SW26010: core-hours are counted in these."""
