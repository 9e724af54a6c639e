"""The suite: AMSFL on many kinds of data, models, clients and profiles."""
