"""Accountants of all mechanisms other than the label exchange."""
