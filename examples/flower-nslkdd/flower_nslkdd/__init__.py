"""AMSFL on Flower: five sites with their own shards of NSL-KDD and their own speeds."""
