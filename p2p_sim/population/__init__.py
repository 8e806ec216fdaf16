"""Who the users are: synthetic laws, data sets, tables, clusters."""
