"""Studies: many runs of one question, resumable run by run, with JSON, a table and a plot."""
