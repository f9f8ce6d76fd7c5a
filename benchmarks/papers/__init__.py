"""The comparisons of the five papers, a module each."""
