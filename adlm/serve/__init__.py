"""`adlm serve`: models behind an HTTP API, and a page in the browser that plays with them."""
