"""`fairlead demo`: jobs do real I/O through a forwarding plane, a fault is drawn, and who is accused is shown."""
