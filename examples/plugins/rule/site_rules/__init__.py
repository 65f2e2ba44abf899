"""Rules of this site: every .toml file beside this one."""
