"""The texts below fields become descriptions, wherever a class is written."""

from typing import Any

from p2p_sim.base.configuration import Config, descriptions


class Outer(Config):
    """A class with a class inside."""

    size: int
    """How large."""
    plain: int = 1

    class Inner(Config):
        """Of the same field names."""

        size: int
        """How small."""


class Below(Outer):
    """A class that inherits one text, and takes one away."""

    plain: int = 2
    """Plain now."""
    size: int


def made() -> Any:
    class Local(Config):
        """A class in a function."""

        size: int
        """How near."""

    return Local


def test_each_class_has_its_own_texts():
    assert descriptions(Outer)["size"] == "How large."
    assert "plain" not in descriptions(Outer)
    assert descriptions(Outer.Inner)["size"] == "How small."
    assert descriptions(made())["size"] == "How near."
    assert descriptions(Below)["plain"] == "Plain now."
    assert "size" not in descriptions(Below)


def test_a_class_without_source_has_no_texts():
    there = {"Config": Config, "__name__": "nowhere"}
    exec('class Bare(Config):\n    size: int\n    """Lost."""', there)
    assert "size" not in descriptions(there["Bare"])
    assert there["Bare"].model_json_schema()["properties"]["size"]["type"] == "integer"
