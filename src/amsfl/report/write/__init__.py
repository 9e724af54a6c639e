"""The page, its words, and every file of a report."""
