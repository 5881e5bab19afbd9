"""The forward process: noise schedules, time draws, masking."""
