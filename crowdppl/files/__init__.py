"""Files of annotations and of known truths, read as tables."""
