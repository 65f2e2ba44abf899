"""What things are: records, units, errors, the format of batches, compression, tokens. Nothing of fairlead below it."""
