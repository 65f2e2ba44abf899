"""Records of the requests of one client: a ring the mount writes into, a thread that makes `ops` rows of it."""
