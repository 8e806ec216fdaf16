"""Kinds that other packages add by entry points: mechanisms, protocols, learners and the like; and where they fail."""

import importlib.metadata
import inspect
import json
import os
import pkgutil
import traceback
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any, TypeVar, get_args
from weakref import WeakKeyDictionary

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from p2p_sim.base.checked_values import misfit
from p2p_sim.base.configuration import Config
from p2p_sim.base.packages import code_digest

MECHANISMS, OVERLAYS = "p2p_sim.mechanisms", "p2p_sim.overlays"
LEARNERS, POPULATIONS, FAULTS = "p2p_sim.learners", "p2p_sim.populations", "p2p_sim.faults"
PROTOCOLS = "p2p_sim.protocols"
GROUPS = (MECHANISMS, PROTOCOLS, OVERLAYS, LEARNERS, POPULATIONS, FAULTS)
"""The groups of entry points in which packages offer kinds; a protocol is a kind of mechanism."""
_OTHER = "plug-in"
"""The tag under which a union holds all kinds that are not its own."""
_MISSING = "no installed plug-in has this kind (pip install adds one)"
"""What a message about an unknown kind ends with, where plug-ins may offer kinds."""
_CODE: WeakKeyDictionary[type, str] = WeakKeyDictionary()
"""By class of a plug-in, the digest of its package's code when the class was first met."""


C = TypeVar("C", bound=Config)


class PlugInError(Exception):
    """A plug-in that cannot be used: one clear line that names its package."""


@dataclass(frozen=True)
class Offer:
    """A class that an installed package declares as a kind of a group, such as a mechanism."""

    package: str
    version: str
    entry: importlib.metadata.EntryPoint

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    def load(self, base: type[Config]) -> type[Config]:
        """Import the class, which must derive from `base`.

        Raises:
            PlugInError: it cannot be imported, or is no such class.
        """
        try:
            loaded = self.entry.load()
        except Exception as fault:
            why = " ".join(f"{type(fault).__name__}: {fault}".split())[:300]
            raise PlugInError(f"plug-in {self} cannot be imported ({why})") from None
        checked = checked_kind(f"plug-in {self}: {self.entry.value}", loaded, base, self.entry.name)
        self.code_of(checked)
        return checked

    def code(self) -> str:
        """Digest of the package's code as it lies on disk now."""
        distribution = self.entry.dist
        entries = (self.entry,) if distribution is None else distribution.entry_points
        modules = {entry.module for entry in entries if entry.group in GROUPS}
        try:
            return code_digest(distribution, modules)
        except OSError as fault:
            raise PlugInError(f"plug-in {self}: its code cannot be read ({fault})") from None

    def code_of(self, config: type) -> str:
        """Digest of the package's code when a class of it was first met: of the code that runs, not of that on disk."""
        if config not in _CODE:
            _CODE[config] = self.code()
        return _CODE[config]


@cache
def offers(group: str) -> dict[str, tuple[Offer, ...]]:
    """What the installed packages offer to a group, by kind; nothing is imported."""
    by_kind: dict[str, tuple[Offer, ...]] = {}
    groups = (MECHANISMS, PROTOCOLS) if group == MECHANISMS else (group,)
    for entry in (entry for name in groups for entry in importlib.metadata.entry_points(group=name)):
        package, version = ("unknown", "") if entry.dist is None else (entry.dist.name, entry.dist.version)
        by_kind[entry.name] = (*by_kind.get(entry.name, ()), Offer(package, version, entry))
    return {kind: tuple(sorted(by_kind[kind], key=str)) for kind in sorted(by_kind)}


def packages() -> dict[str, str]:
    """Name and version of every installed package that offers something."""
    return {offer.package: offer.version for offer in offers_of_all()}


def codes() -> dict[str, str]:
    """Digest of the code, as it lies on disk now, of every installed package that offers something."""
    return {name: offer.code() for name, offer in {offer.package: offer for offer in offers_of_all()}.items()}


def offers_of_all() -> list[Offer]:
    """What the installed packages offer to any group."""
    return [offer for group in GROUPS if group != PROTOCOLS for several in offers(group).values() for offer in several]


def offer_of(group: str, kind: str) -> Offer | None:
    """The plug-in's offer of a kind, of several the first; None for a kind of the simulator's own."""
    makers = offers(group).get(kind, ())
    return makers[0] if makers else None


def maker_of(thing: object) -> Offer | None:
    """The offer, of any kind, whose package an object's class comes from; None for the simulator's own classes."""
    package = type(thing).__module__.partition(".")[0]
    if package == "p2p_sim":
        return None
    return next((offer for offer in offers_of_all() if offer.entry.module.partition(".")[0] == package), None)


def method_of(offer: Offer | None, owner: object, method: str) -> str:
    """The beginning of a message about what a method of a plug-in returned; empty if the method is the simulator's own.

    >>> method_of(None, Config(), "graph")
    ''
    """
    return "" if offer is None else f"plug-in {offer}: {type(owner).__name__}.{method}: "


def kinds_of(config: type[Config]) -> tuple[Any, ...]:
    """The values that the key `kind` may have in a class of configurations: those of its annotation `Literal[...]`."""
    return get_args(config.model_fields["kind"].annotation)


def checked_kind(named: str, config: Any, base: type[C], kind: str) -> type[C]:
    """A class that a scenario may name by its kind.

    Args:
        named: what a message begins with. config: the class. base: what it must derive from. kind: its name.

    Raises:
        PlugInError: it is no such class, or lacks a method.
    """
    if not (isinstance(config, type) and issubclass(config, base)):
        raise PlugInError(f"{named} must be a class derived from {base.__module__}.{base.__qualname__}")
    if inspect.isabstract(config):
        raise PlugInError(f"{named} lacks {', '.join(sorted(config.__abstractmethods__))}")
    if (kinds := kinds_of(config)) != (kind,):
        raise PlugInError(
            f"{named} needs kind: Literal[{kind!r}], the name of its entry point, not "
            f"{' or '.join(map(repr, kinds)) or 'any text'}"
        )
    if wrong := misfit(config, base):
        raise PlugInError(f"{named}.{wrong}")
    return config


@cache
def kinds_within(package: str, base: type[C]) -> dict[str, type[C]]:
    """The kinds that the modules of a package define, by name: every class with a `kind` of its own.

    Raises:
        PlugInError: a class lacks a method, or two have the same kind.
    """
    classes: dict[str, type[C]] = {}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        for cls in vars(importlib.import_module(module.name)).values():
            if isinstance(cls, type) and cls.__module__ == module.name and issubclass(cls, base) and kinds_of(cls):
                [kind] = kinds_of(cls)
                if kind in classes:
                    raise PlugInError(f"{kind!r} is the kind of {classes[kind].__name__} and of {cls.__name__}")
                classes[kind] = checked_kind(f"{module.name}.{cls.__qualname__}", cls, base, kind)
    return {kind: classes[kind] for kind in sorted(classes)}


@dataclass(frozen=True)
class PlugIns:
    """In an annotated union of configurations, told apart by `kind`: what packages offer to a group belongs to it too.

    A package is imported when a kind of its own is first asked for, or when the JSON Schema is; a plug-in that cannot
    be used is then a fault of that kind alone.

    group: of entry points, whose names are kinds. base: what their classes must derive from.
    package: whose modules define p2p-sim's own kinds; empty: the union names them.
    """

    group: str
    base: type[Config]
    package: str = ""

    def find(self, kind: str, own: Iterable[str]) -> type[Config] | None:
        """The class of a kind; None if nobody offers it.

        Args:
            kind: asked for. own: kinds of the union itself, which nobody else may offer.

        Raises:
            PlugInError: it is offered twice, or cannot be used.
        """
        makers = offers(self.group).get(kind, ())
        if makers and kind in own:
            raise PlugInError(f"is a kind of p2p-sim itself, and plug-in {makers[0]} offers it too: uninstall that one")
        if len(makers) > 1:
            raise PlugInError(f"is offered by {' and by '.join(map(str, makers))}: uninstall all but one")
        return makers[0].load(self.base) if makers else None

    def usable(self, own: Iterable[str]) -> Iterator[type[Config]]:
        """Yields the classes of all plug-ins that can be used, and warns of each of the others with the reason.

        own: kinds of the union itself.
        """
        own = tuple(own)
        for kind in offers(self.group):
            try:
                config = self.find(kind, own)
            except PlugInError as error:
                warnings.warn(f"{self.group}: {kind}: {error}", stacklevel=2)
            else:
                if config is not None:
                    yield config

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The union of the classes of `source`, and of what is known when a value is looked at."""
        choices: dict[Any, CoreSchema] = {kinds_of(own)[0]: handler.generate_schema(own) for own in self._own(source)}
        own = tuple(choices)

        def tag(value: Any) -> str | None:
            kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", "")
            if kind is None:
                return None
            return kind if kind in own and not offers(self.group).get(kind) else _OTHER

        def validate(value: Any, info: ValidationInfo) -> Config:
            return self._validate(value, info, own)

        choices[_OTHER] = core_schema.with_info_plain_validator_function(validate)
        return core_schema.tagged_union_schema(choices, tag, serialization=core_schema.simple_ser_schema("any"))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The JSON Schema: one of the union's own classes, or of the installed plug-ins' that can be used."""
        own = {kind: choice for kind, choice in schema["choices"].items() if kind != _OTHER}
        others = {kinds_of(config)[0]: config.__pydantic_core_schema__ for config in self.usable(own)}
        return handler(core_schema.tagged_union_schema({**own, **others}, "kind"))

    def _own(self, source: Any) -> tuple[type[Config], ...]:
        """The configuration classes that belong to the union without plug-ins; `source` is the annotated union or base
        class.
        """
        if self.package:
            return tuple(kinds_within(self.package, self.base).values())
        return get_args(source) or (() if source is self.base else (source,))

    def _validate(self, value: Any, info: ValidationInfo, own: tuple[str, ...]) -> Config:
        """A value of a kind that is not the union's own."""
        if not isinstance(value, dict | self.base):
            raise PydanticCustomError("dict_type", "Input should be an object")
        kind = (value if isinstance(value, dict) else vars(value))["kind"]
        try:
            config = self.find(kind, own) if isinstance(kind, str) else None
        except PlugInError as error:
            raise PydanticCustomError("union_tag_plug_in", "{fault}", {"tag": kind, "fault": str(error)}) from None
        if config is None:
            expected = ", ".join(repr(name) for name in (*own, *offers(self.group))) or "those of an installed plug-in"
            text = "kind '{tag}' does not match any of the expected ones: {expected_tags}"
            context = {"tag": str(kind), "expected_tags": expected, "note": _MISSING}
            raise PydanticCustomError("union_tag_invalid", text, context)
        if info.mode == "json":
            return config.model_validate_json(json.dumps(value))
        return config.model_validate(value)


def member(union: Any, kind: str) -> type[Config] | None:
    """The class of a kind in a union annotated with `PlugIns`; None if there is none that can be used."""
    classes, plug_ins = get_args(union)
    own = {kinds_of(config)[0]: config for config in plug_ins._own(classes)}
    try:
        chosen: type[Config] | None = plug_ins.find(kind, own) or own.get(kind)
    except PlugInError:
        return None
    return chosen


DEBUG = "P2P_SIM_DEBUG"
"""Environment variable; where it is set, an exception of a plug-in is shown with its whole traceback."""


def plug_in_fault(fault: BaseException) -> str | None:
    """What went wrong in which method of which plug-in, in one line; None if no plug-in was running.

    The method is the one that the simulator called; the line is the last one in the plug-in's own package.
    """
    modules = {offer.entry.module.partition(".")[0]: offer for offer in offers_of_all()}
    frames = [(frame, line) for frame, line in traceback.walk_tb(fault.__traceback__) if _top(frame) in modules]
    if not frames:
        return None
    called, (last, line) = frames[0][0], frames[-1]
    message = " ".join(traceback.format_exception_only(fault)[-1].split())
    owner = called.f_locals.get("self")
    method = called.f_code.co_qualname if owner is None else f"{type(owner).__name__}.{called.f_code.co_name}"
    return f"plug-in {modules[_top(called)]}: {method} failed: {message} ({last.f_code.co_filename}, line {line})"


def plug_in_failure(fault: BaseException) -> str | None:
    """A plug-in's fault in one line, and how to see more; None if the whole traceback is wanted or no plug-in ran."""
    if os.environ.get(DEBUG) or (text := plug_in_fault(fault)) is None:
        return None
    return f"{text}; for the whole traceback set {DEBUG}=1"


def _top(frame: FrameType) -> str:
    """The top-level package of a frame's code."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
