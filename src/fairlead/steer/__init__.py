"""What touches the operating system: one room per service."""
