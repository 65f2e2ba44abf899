"""Which phases were slower than they should have been: by how much, and how sure that is. Pure."""
