"""The sub-commands of `adlm`, one plain function a file."""
