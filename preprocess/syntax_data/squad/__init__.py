"""SQuAD 2.0: questions, windows of passages, answers, and the official score."""
