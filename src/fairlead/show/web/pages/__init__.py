"""The pages people look at, as the server sends them. Not here: their sources, which are Vue (`pages/`)."""
