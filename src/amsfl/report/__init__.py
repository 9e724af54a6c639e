"""Tables, figures and one page from records on disk; trains nothing."""
