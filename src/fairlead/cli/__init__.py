"""The command line, thin: one module per noun, imported when it is called (`fairlead.cli.main`)."""
