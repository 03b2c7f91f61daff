"""Reading Python source, and checks of its structure."""
