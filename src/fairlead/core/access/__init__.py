"""Who may: tokens and TLS, for every service of fairlead that listens on a network."""
