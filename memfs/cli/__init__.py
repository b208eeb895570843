"""What a person types.

One module a command group. A module offers its commands in a tuple `COMMANDS`; `memfs.cli.main` finds it there. Modules import
nothing heavy at the top (no pydantic, trio, SQLAlchemy): every start of the program imports all of them.
"""
