"""Statistics of jobs, users and components, as tables (Beacon, TOS 2023, section 5). Pure."""
