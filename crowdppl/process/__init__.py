"""What belongs to the process: torch's device and precision, its random streams, whose turn it is, and Ctrl-C."""
