"""The layouts of transformers: names of tensors and configurations, both ways."""
