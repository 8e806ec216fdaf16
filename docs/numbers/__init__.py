"""Where the numbers of the documentation come from: passages written anew from results, held against the pages.

Each page has a module here. Its sources write passages of the page again, from a committed table or by computing
them; each names the command that makes the numbers and the test that runs this command at reduced size.
"""
