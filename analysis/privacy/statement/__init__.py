"""What a privacy statement is, and what every bound shares."""
