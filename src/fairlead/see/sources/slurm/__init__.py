"""Slurm's accounts of jobs, in the forms sites keep them, as `jobs` records. Not here: asking a live Slurm."""

from fairlead.see.sources.slurm.source import SlurmSource

__all__ = ["SlurmSource"]
