"""What people look at or take along: figures, reports, comparisons, exports."""
