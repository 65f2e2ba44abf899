"""Which phases were slower than they should have been: published detectors, ours, and how sure each is. Pure."""
