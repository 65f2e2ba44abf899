"""Accounts, sessions, tokens, share links and the audit log, in one SQLite file. Not here: HTTP, who may (`signin`)."""
