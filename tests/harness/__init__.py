"""What the tests share to run a mount, drive tools in it and look into its store from outside."""
