"""Measure trained bands alone and beside shared neurons, and learning time with and without them.

python -m benchmarks.settings.bands --out bands.md bands.csv
python -m benchmarks.settings.bands --hold-out --shared 0 50 --bands 0 1 3
python -m benchmarks.settings.bands --sets digits fpha --grid
"""
