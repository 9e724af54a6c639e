"""A record while it is written, as a page that follows it: follow (read), words (say), serve (show)."""
