"""A word to somebody who averages models of parts that see less than their model reads."""

from __future__ import annotations

from starling.store.parts_manifest import PartsManifest
from starling.store.shards import MOST_HALO_HOPS
from starling.train.config import RunConfig


def shallow_halo_advice(config: RunConfig) -> str | None:
    """What to do about halos of fewer hops than layers, for a run that averaged without correction; `config` is what it kept."""
    layers = config.model.settings.get("layers")  # a user's own class may not say
    if config.sync.name != "average" or config.sync.correct or not isinstance(layers, int):
        return None
    needed = layers + (config.task.name == "link")  # the source of a target edge may be a halo node itself
    hops, wanted = PartsManifest.read(config.data.path).halo_hops, min(needed, MOST_HALO_HOPS)
    if hops >= wanted:
        return None
    instead = "" if config.task.name == "link" else ", or pass --correct"
    return (
        f"Parts trained alone with {'1 hop' if hops == 1 else f'{hops} hops'} of halo and a model of {layers} layers, so near cuts "
        f"they saw incomplete neighbourhoods. If validation is below that of --sync gradient, partition with --halo-hops {wanted}"
        f"{instead}."
    )
