"""Networks that look at items: what a story asks of them, and how they are trained."""
