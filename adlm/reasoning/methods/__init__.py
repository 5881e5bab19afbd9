"""Methods: one short file each, a plan of stages and what stands in the slots."""
