"""Reading a story by running it: which sites it has, what they are, its density and its counts."""
