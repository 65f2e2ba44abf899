"""Run-length compression of client operations: lossless in operation, file, size, offset, count and order."""
