"""The page of `fairlead whatif`."""
