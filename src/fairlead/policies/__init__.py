"""Pure decisions: who is served next, which target takes a file. Time and randomness are arguments."""
