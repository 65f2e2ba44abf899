"""The path of an arriving job: which forwarders and targets, how striped and read ahead. See `contract`."""
