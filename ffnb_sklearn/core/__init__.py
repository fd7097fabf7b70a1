"""The method of the paper in torch, numpy and LAPACK; knows nothing of scikit-learn."""
