"""Linear models on features of maps: estimators, their routes and solvers."""
