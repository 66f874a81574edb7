"""Feature files on disk, and the dataset that reads them beside the tokens."""
