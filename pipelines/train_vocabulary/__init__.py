"""The vocabulary: counted words or drawn lines in, a model and its files out."""

from pipelines.train_vocabulary.stage import train_vocabulary

__all__ = ["train_vocabulary"]
