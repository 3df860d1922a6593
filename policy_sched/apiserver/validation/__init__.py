"""What the API server checks of an object's fields; all that is wrong is told at once."""
