"""`python -m docs.numbers`: holds every page against its sources; `--list` says which command makes which number."""

import argparse

from docs.numbers.page import faults
from docs.numbers.pages import PAGES


def main() -> None:
    """Print what is amiss and fail, or list commands and their tests."""
    parser = argparse.ArgumentParser(description="Holds the numbers of the documentation against where they come from.")
    parser.add_argument("--list", action="store_true", help="print page, command and test of every source")
    parser.add_argument("pages", nargs="*", help="some pages only, such as docs/network.md")
    wanted = parser.parse_args()
    pages = [page for page in PAGES if not wanted.pages or page.path in wanted.pages]
    if wanted.list:
        for page in pages:
            for source in page.sources:
                print(f"{page.path}: {source.command} (tests/{source.test})")
        return
    found = [fault for page in pages for fault in faults(page)]
    print("\n".join(found) or f"{len(pages)} pages agree with their sources")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
