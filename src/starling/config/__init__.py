"""Settings: strict models checked with one clear sentence, read from TOML and written back."""
