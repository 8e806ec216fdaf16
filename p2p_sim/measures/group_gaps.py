"""Result columns about groups of users, and each group's loss of accuracy.

The name of such a column is a quantity, followed by a grouping and a group in brackets: `error_rate[sex=Female]`.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

SHARE, ERROR, REFERENCE, LOSS = "share", "error_rate", "nonprivate_error_rate", "excess_error_rate"
ACCURACY, REFERENCE_ACCURACY = "accuracy", "nonprivate_accuracy"
_COLUMN = re.compile(r"(?P<figure>\w+)\[(?P<kind>[^=]+)=(?P<name>.*)\]", re.DOTALL)


class Group(NamedTuple):
    """A group of rows on which errors are measured.

    kind: the grouping, such as "sex". name: the group's name in the grouping, such as "Female".

    >>> Group("sex", "Female").column("error_rate")
    'error_rate[sex=Female]'
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def column(self, figure: str) -> str:
        """The name of the result column that holds a quantity for this group, such as error_rate[sex=Female].

        Args:
            figure: the quantity, by the name of the column about all users, such as "error_rate".
        """
        return f"{figure}[{self.kind}={self.name}]"


def groups_of(columns: Iterable[Any]) -> list[Group]:
    """The groups of users whose error rates are columns of result rows, in the order of the columns.

    >>> groups_of(["error_rate", "share[class=0]", "error_rate[class=0]"])
    [Group(kind='class', name='0')]
    """
    figures = filter(None, map(figure_of, map(str, columns)))
    return [group for figure, group in figures if figure == ERROR]


def figure_of(column: str) -> tuple[str, Group] | None:
    """The quantity and the group in a column's name; None if the column is not about a group.

    >>> figure_of("accuracy[class=0]")
    ('accuracy', Group(kind='class', name='0'))
    """
    match = _COLUMN.fullmatch(column)
    return None if match is None else (match["figure"], Group(match["kind"], match["name"]))


def extra_loss(rows: "pd.DataFrame", group: Group) -> "pd.Series":
    """For each row, how much more accuracy a group loses by privacy than all other users together. The loss is the
    learner's error rate minus the error rate of the same learner without privacy. The result is NaN if the group is
    empty or has all users. The other users' loss follows from the loss of all users, the group's loss and the group's
    share of the users.

    Args:
        rows: result rows, with error rates with and without privacy of all users and of the group, and the group's
        share. group: the group to compare.
    """
    share = rows[group.column(SHARE)].astype(float)
    own = (rows[group.column(ERROR)] - rows[group.column(REFERENCE)]).astype(float)
    whole = (rows[ERROR] - rows[REFERENCE]).astype(float)
    return own - ((whole - share * own) / (1.0 - share).where(share < 1.0))
