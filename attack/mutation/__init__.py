"""Mutation testing: the core is changed a little at a time, and a test must notice each change."""
