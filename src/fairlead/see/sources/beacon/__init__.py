"""Beacon's published line formats, all six layers, as records. Not here: how a site ships them."""

from fairlead.see.sources.beacon.source import BeaconSource

__all__ = ["BeaconSource"]
