"""The tree `targets:FILE`: metadata in LMDB (or a metadata service), data striped over target directories."""
