"""The test kit that is part of the product: contract suites, fault wrappers, devices of known speed."""
