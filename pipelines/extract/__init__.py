"""Stage `extract`: pages of a shard become documents with a language, one table a language."""
