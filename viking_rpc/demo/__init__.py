"""What the demonstration imports and asks: the handbook, memories and skills of an invented company."""
