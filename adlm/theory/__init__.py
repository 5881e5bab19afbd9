"""The paper's theory made runnable: everything here is exact, on spaces small enough to list."""
