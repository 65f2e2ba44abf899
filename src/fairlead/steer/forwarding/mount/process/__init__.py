"""Start and end of a mount process, and the commands that speak to one from outside."""
