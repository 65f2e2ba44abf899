"""What only the pages ask for, one question a module. Not here: parameters (`catalog_pages`), answers' shapes."""
