"""Counter texts → plain tuples, standard library only: shared by the node agent and by sources."""
