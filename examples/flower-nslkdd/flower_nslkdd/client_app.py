"""A site: its own rows from its own file, our model, and whatever steps the server asks for."""

from amsfl.flower.deploy.builtin_app import own_shard

from amsfl.flower import jax_client

app = jax_client(own_shard)
