"""The real program, as in the tests of the command line."""

from tests.cli.conftest import Program, program

__all__ = ["Program", "program"]
