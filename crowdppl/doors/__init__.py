"""What callers hand over, looked at before anything is done with it."""
