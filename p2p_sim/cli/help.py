"""Help texts: plain text as wide as the terminal, from 50 to 120 columns, with examples that can be pasted."""

import textwrap
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command; the paragraph of its help that begins with "Example: " is shown as lines for a shell."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Arguments by their name, without braces."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """What the command does, and its example."""
        text, _, example = (self.help or "").partition("Example: ")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text.strip())
        if example:
            with formatter.section("Example"):
                for line in shell_lines(example.strip(), formatter.width - 4):
                    formatter.write(f"  {line}\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments by their name alone; an option's value as the help names it."""
        parts: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                named = param.param_type_name == "option"
                name = record[0] if named else str(param.metavar or record[0])
                parts["Options" if named else "Arguments"].append((name, record[1]))
        for title, records in parts.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Commands(TyperGroup):
    """All commands, each with the whole first sentence of its help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A line or more for each command."""
        found = [(name, command) for name, command in self.commands.items() if not command.hidden]
        with formatter.section("Commands"):
            formatter.write_dl([(name, first_sentence(command.help or "")) for name, command in found])


class App(typer.Typer):
    """A command line whose commands have the help above."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Commands, rich_markup_mode=None, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """As in typer."""
        return super().command(name, **{"cls": Command, **settings})


def first_sentence(text: str) -> str:
    """The first paragraph in one line.

    >>> first_sentence("Print what\\nis known.\\n\\nExample: p2p-sim")
    'Print what is known.'
    """
    return " ".join(text.strip().split("\n\n")[0].split())


def shell_lines(command: str, width: int) -> list[str]:
    """A command in lines that a shell reads as one.

    >>> shell_lines("p2p-sim run one.toml --set seed=2", 22)
    ['p2p-sim run one.toml \\\\', '    --set seed=2']
    """
    wrapper = textwrap.TextWrapper(width - 2, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    lines = wrapper.wrap(command)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]
