"""Public data sets: where they are found, how they are written, how they are fetched and checked."""
