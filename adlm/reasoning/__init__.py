"""Reasoning: tasks x methods, every method a plan of stages over one trainer."""
