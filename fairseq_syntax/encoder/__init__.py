"""The Transformer encoder with syntax."""
