"""Training: one loop, resumable to the bit."""
