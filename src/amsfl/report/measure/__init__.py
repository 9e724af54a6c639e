"""What is measured: records read, numbers taken from them, their spread."""
