"""What a user's mistake is; loads nothing, so that the command line starts quickly."""


class InputError(Exception):
    """A user's mistake: one clear line that names the key or file, the value and what is allowed."""
