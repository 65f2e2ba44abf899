"""`fairlead demo`: real I/O of three jobs through a real forwarding plane, a fault that is drawn, and who is accused."""
