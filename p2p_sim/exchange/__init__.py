"""What peers say, as messages and as one draw."""
