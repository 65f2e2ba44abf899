"""One file (or folder) per source: bytes in, records (Arrow) out. Detection is by content, not by name."""
