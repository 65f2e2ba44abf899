"""Pictures and the page of simulated experiments. Not here: what is simulated (`fairlead.decide.sim.experiments`)."""
