"""Which components are sick: against peers, against their own peak, over time; incidents. Pure."""
