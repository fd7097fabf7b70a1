"""The method of the paper in torch and numpy; knows nothing of scikit-learn."""
