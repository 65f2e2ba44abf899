"""Applications that compute and do I/O in turn over one layer of shared resources, event by event and exact.

The model of the scheduling study (Bandet, Boito, Pallez 2024): an I/O subphase on n resources is n transfers that go on
by themselves, and ends with the last; a resource is shared by the applications using it. `cycle_model` says what goes
in and out, `cycle_kernel` is the compiled loop, `measures` what is measured. Several layers: `sim.engine` and
`sim.replay`.
"""
