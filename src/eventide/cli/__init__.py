"""The `eventide` command. Everything heavy is imported inside the commands, so that `--help` is instant."""
