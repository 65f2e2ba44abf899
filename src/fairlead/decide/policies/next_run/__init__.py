"""What the next run of a job will be like, from the runs before it."""
