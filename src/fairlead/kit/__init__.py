"""What tests, trials and demonstrations need: the shipped test kit, the demo, the sample site."""
