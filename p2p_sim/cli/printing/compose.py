"""What `compose` shows."""

import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from p2p_sim.analysis.privacy.statement.record import whole
from p2p_sim.cli.printing.values import at_most, print_conditions, print_object, say, show
from p2p_sim.cli.releases import ORDERS, Account


def print_accounts(accounts: Sequence[Account]) -> None:
    """The table of the releases, the total with its conditions, and one user's account if she was named."""
    account = accounts[0]
    _table(account, f"{account.name}: ε at δ = {account.delta:g}, at most; the worst user")
    _figures(account)
    bound = account.bound
    whole_rows = [line.release.label for line in account.lines if line.alone.adjacency == "example"]
    if bound.adjacency == "label" and whole_rows:
        say(f"What protects a whole example protects its label too, and counts here as such: {', '.join(whole_rows)}.")
    print_conditions(bound, together=True)
    for account in accounts[1:]:
        _table(account, f"{account.name}: ε at δ = {account.delta:g}, at most; user {account.user}")
        _figures(account)
        say(f"User {account.user} is whoever has this number in each replicate of a scenario.")
        if account.bound.conditional_on:
            say(
                f"Her account is conditional on {account.bound.conditional_on} of each replicate, which does not "
                "depend on labels; it holds for her place there, under the conditions above."
            )


def print_accounts_json(accounts: Sequence[Account]) -> None:
    """One JSON object: the worst user's account, and below `user_account` that of one user."""
    record = _record(accounts[0])
    print_object(
        {**record, "user_account": _record(accounts[1]) | {"user": accounts[1].user} if accounts[1:] else None}
    )


def _table(account: Account, title: str) -> None:
    table = Table(title=title, title_justify="left")
    for name in ("release", "times", "protects", "ε of it alone", "ε so far"):
        table.add_column(name)
    for line in account.lines:
        row = (line.alone.adjacency, at_most(line.alone.epsilon_upper), at_most(line.so_far.epsilon_upper))
        table.add_row(line.release.label, f"{line.release.times:,}", *row)
    show(table)


def _figures(account: Account) -> None:
    renyi = [(order, account.total.renyi(order)) for order in ORDERS]
    if any(math.isfinite(epsilon) for _, epsilon in renyi):
        say(f"Rényi ε, at most: {', '.join(f'{at_most(epsilon)} of order {order:g}' for order, epsilon in renyi)}.")
    mu = account.total.gdp(account.beside)
    if math.isfinite(mu):
        say(f"At every ε, δ is at most that of μ-GDP with μ = {at_most(mu)}, plus {at_most(account.beside)}.")


def _record(account: Account) -> dict[str, Any]:
    lines = [
        {
            "release": line.release.label,
            "times": line.release.times,
            "adjacency": line.alone.adjacency,
            "observer": line.alone.observer,
            "epsilon_alone_upper": line.alone.epsilon_upper,
            "epsilon_so_far_upper": line.so_far.epsilon_upper,
        }
        for line in account.lines
    ]
    renyi = {f"{order:g}": account.total.renyi(order) for order in ORDERS}
    figures = {"renyi": renyi, "gdp_mu": account.total.gdp(account.beside), "gdp_beside": account.beside}
    return {"name": account.name, **whole(account.bound), **figures, "releases": lines}
