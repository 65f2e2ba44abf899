"""`fairlead demo`: three jobs do real I/O through a forwarding plane, a fault is drawn, and someone is accused or nobody."""
