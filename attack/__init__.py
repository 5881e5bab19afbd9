"""The reliability campaign: kills, bad input, faults, crowds and mutants. Not part of the wheel.

python -m attack [KIND ...]       attack, and write results/attack.json
python -m attack.mutation         change the core a little, and see that a test notices
"""
