"""Where the numbers of the documentation come from: named values, which pages name in comments above what they say.

A module here holds the values of one source, with the command that makes them and the test that runs this command at
reduced size. `docs.values.pages` puts them into the pages, with cog.
"""
