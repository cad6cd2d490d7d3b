"""The words of the project as frozen values and pure functions; no I/O, no arrays of whole trees."""
