"""What ends a benchmark early."""


class Problem(Exception):
    """The message says what went wrong and what to do next."""
