"""A file of lines that grows: each line is read once."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Tail:
    """Reads the lines that were added to a file; one that was written anew is read from its beginning.

    first: whether the line that was read last is the first of the file.
    """

    inode: int = -1
    offset: int = 0
    first: bool = False

    def added(self, path: Path) -> Iterator[bytes]:
        """Whole lines that were added since the last call; none if there is no such file."""
        if not path.exists():
            return
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_ino != self.inode or status.st_size < self.offset:
                self.inode, self.offset = status.st_ino, 0
            file.seek(self.offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.first = self.offset == 0
                self.offset += len(line)
                yield line
