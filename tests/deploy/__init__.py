"""What deploy/ has is right: checked by the tools of those it is for, and run where that is possible."""
