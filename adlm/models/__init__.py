"""Models: a vocabulary on both ends of the trunk."""
