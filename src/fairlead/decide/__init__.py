"""Who should get which I/O resource: policies, the simulator, what-if and plans. Nothing here acts on a system."""
