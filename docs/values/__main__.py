"""`python -m docs.values`: puts every value into its page; `--check` changes nothing, `--list` says who makes them."""

import argparse

from docs.values.pages import PAGES, Page, PageError


def main() -> None:
    """Fill the pages, or print what is amiss and fail, or list commands and their tests."""
    parser = argparse.ArgumentParser(prog="python -m docs.values", description="Numbers of the documentation.")
    parser.add_argument("--check", action="store_true", help="print what is amiss, and fail")
    parser.add_argument("--list", action="store_true", help="print page, command and test of every source")
    parser.add_argument("pages", nargs="*", default=PAGES, help="some pages only, such as docs/network.md")
    wanted = parser.parse_args()
    found = []
    for page in map(Page, wanted.pages):
        if wanted.check:
            found += page.faults()
        elif wanted.list:
            page.filled()
            found += [f"{page.path}: {command} (tests/{test})" for command, test in page.used]
        elif page.write():
            found.append(page.path)
    print("\n".join(found) or f"{len(wanted.pages)} pages agree with their sources")
    raise SystemExit(bool(found) and wanted.check)


if __name__ == "__main__":
    try:
        main()
    except PageError as error:
        raise SystemExit(str(error)) from None
