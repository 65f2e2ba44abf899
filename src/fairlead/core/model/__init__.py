"""What things are: record tables, jobs, the platform, findings, units. Imports nothing else of ours."""
