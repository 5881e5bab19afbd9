"""Weights of other projects: one file for each published format."""
