"""Files of annotations, of known truths and of covariates, read as tables."""
