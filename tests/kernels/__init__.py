"""Every kernel against its oracle."""
