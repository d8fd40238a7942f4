"""The command line: `treering`, one small file for each group of commands.

Nothing here computes: a command reads its options, calls the package, and shows what came back. Modules of the package
are imported inside the commands, so that ``--help`` answers at once.
"""
