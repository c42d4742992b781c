"""What every other package stands on: errors, artifacts and manifests, the keyed generator, memory and progress."""
