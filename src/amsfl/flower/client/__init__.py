"""The client: the Flower app around a Trainer, and trainers for torch, jax and numpy."""
