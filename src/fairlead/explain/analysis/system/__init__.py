"""What is wrong with a machine or its use as a whole: amplification, imbalance, storms, misuse. Pure."""
