"""`python -m eventide` is the `eventide` command."""

from eventide.cli.app import main

if __name__ == "__main__":
    main()
