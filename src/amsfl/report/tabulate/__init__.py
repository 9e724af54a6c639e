"""Tables: which there are, and how one is written as CSV, Markdown, HTML and LaTeX."""
