"""What other policies and capacities would have made of a site's own past: reading it, replaying it, checking that."""
