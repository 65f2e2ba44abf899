"""The page of a job's path through client, forwarder and targets, as one file."""
