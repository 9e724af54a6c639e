"""The server: who takes part, what is asked of them, what is believed, and the round itself."""
