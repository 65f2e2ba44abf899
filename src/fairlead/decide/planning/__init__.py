"""From a lake and a policy to plans: what the machine is like now, what a job is expected to do, what it gets."""
