"""Parsers against damaged forms of what they read: a sample in CI, campaigns beside it."""
