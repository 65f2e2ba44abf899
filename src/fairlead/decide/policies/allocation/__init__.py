"""How many I/O resources, and which, an application or an arriving job gets. Pure; see `contract`."""
