"""A site: its own rows from its own file, our model, and whatever steps the server asks for."""

from amsfl.flower import jax_client
from amsfl.flower.deploy.builtin_app import own_shard

app = jax_client(own_shard)
