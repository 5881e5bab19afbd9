"""From raw text to rows of tokens: vocab, sources, detokenize, cache, pack, loader."""
