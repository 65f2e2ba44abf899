"""Pages people look at. Not here: what they say (`fairlead.analysis`, `fairlead.rules`)."""
