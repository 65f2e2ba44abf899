"""Records come in: sources of files, probes on nodes, the agent that sends, the collector that stores."""
