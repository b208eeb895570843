"""`python -m memfs` is `memfs`."""

from memfs.cli.main import main

if __name__ == "__main__":
    main()
