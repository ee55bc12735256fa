"""The commands: one click command a file, imported only when it is called, without logic."""
