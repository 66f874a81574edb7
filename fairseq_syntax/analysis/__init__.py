"""What a trained model does with syntax."""
