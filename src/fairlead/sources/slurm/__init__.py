"""Slurm's accounts of jobs, in the forms sites keep them, as `jobs` records. Not here: asking a live Slurm."""

from fairlead.sources.slurm.source import SlurmSource

__all__ = ["SlurmSource"]
