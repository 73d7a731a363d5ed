"""N-gram language models: counting, smoothing, ARPA files, scores, and the stage of them all."""
