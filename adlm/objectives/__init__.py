"""Training objectives: each scores clean rows in nats, exactly or by an upper bound."""
