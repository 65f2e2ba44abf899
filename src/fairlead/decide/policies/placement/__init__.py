"""Which of the resources: of a new file's stripes (`files`), of an application's transfers (`applications`)."""
