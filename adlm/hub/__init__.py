"""Models on the hub: exported folders, their cards, download and upload."""
