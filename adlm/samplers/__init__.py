"""Generation: one canvas, one loop, many policies."""
