"""What each gateway has sent where, told to the others."""
