"""Tasks: one file each, registered by name."""
