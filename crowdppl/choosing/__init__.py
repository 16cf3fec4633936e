"""Which method to take, and how much to believe it: judged by labels that it was not shown."""
