"""Every other mechanism's accounting."""
