"""How much of the clustering paper's Theorems 2, 4 and 5 shows: their terms and their lower bound, measured."""
