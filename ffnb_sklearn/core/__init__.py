"""The method of the paper in torch, NumPy and LAPACK, independent of scikit-learn."""
