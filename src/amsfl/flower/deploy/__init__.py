"""A whole federation on this machine: data dealt, processes started, keys made."""
