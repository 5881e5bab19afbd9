"""Network parts. One trunk, many masks: causal, bidirectional and document-masked use share it."""
