"""The parts of the syntax-aware encoders."""
