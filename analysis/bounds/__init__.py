"""How tight bounds are: what a data set and an event attain."""
