"""What records mean: analysis, rules, questions people ask, and the loop that writes findings."""
