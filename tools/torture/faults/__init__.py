"""One module for each class of faults; each has a function `run(plan)` that returns its results."""
