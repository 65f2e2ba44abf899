"""Pure decisions: how many, which, which path, who is next, what comes next. Time and randomness are arguments."""
