"""Pages people look at. Not here: what they say (`fairlead.explain.analysis`, `fairlead.explain.rules`)."""
