"""The commands: they parse and print; everything else happens in the packages below."""
