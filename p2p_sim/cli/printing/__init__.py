"""What the commands show: tables, JSON, progress."""
