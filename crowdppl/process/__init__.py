"""What belongs to the whole process: torch's device and precision, its random streams, and whose turn it is."""
