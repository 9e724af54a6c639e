"""What each client brings and what it costs: numbers in, a statement out."""
