"""Feature files beside the token files of a data-bin."""
