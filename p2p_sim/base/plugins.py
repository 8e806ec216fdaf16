"""Plug-ins: further kinds of mechanisms, protocols, learners and the like, which other packages add by entry points."""

import importlib.metadata
import inspect
import json
import os
import pkgutil
import traceback
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from types import FrameType
from typing import Any, TypeVar, get_args
from weakref import WeakKeyDictionary

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from p2p_sim.base.checked_values import misfit, wrong_attribute
from p2p_sim.base.configuration import Config
from p2p_sim.base.packages import code_digest

MECHANISMS, OVERLAYS = "p2p_sim.mechanisms", "p2p_sim.overlays"
LEARNERS, POPULATIONS, FAULTS = "p2p_sim.learners", "p2p_sim.populations", "p2p_sim.faults"
PROTOCOLS = "p2p_sim.protocols"
GROUPS = (MECHANISMS, PROTOCOLS, OVERLAYS, LEARNERS, POPULATIONS, FAULTS)
"""The groups of entry points in which packages offer kinds. A protocol is a kind of mechanism."""
_OTHER = "plug-in"
"""The one tag that all plug-ins' kinds share in a union of configuration classes."""
_CODE: WeakKeyDictionary[type, str] = WeakKeyDictionary()
"""For each class of a plug-in, the digest of the package's code when the class was loaded."""


C = TypeVar("C", bound=Config)


class PlugInError(Exception):
    """The error for a plug-in that cannot be used. Its message is one line that names the package."""


@dataclass(frozen=True)
class Offer:
    """One kind of mechanism, learner or the like that an installed package offers. The entry point names a class."""

    package: str
    version: str
    entry: importlib.metadata.EntryPoint

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    def load(self, base: type[Config]) -> type[Config]:
        """Import the class, which must derive from `base`, and return it.

        Raises:
            PlugInError: the class cannot be imported, does not derive from `base`, or has a wrong class attribute.
        """
        try:
            loaded = self.entry.load()
        except Exception as fault:
            why = " ".join(f"{type(fault).__name__}: {fault}".split())[:300]
            raise PlugInError(f"plug-in {self} cannot be imported ({why})") from None
        checked = checked_kind(f"plug-in {self}: {self.entry.value}", loaded, base, self.entry.name)
        if wrong := wrong_attribute(checked, base):
            raise PlugInError(f"plug-in {self}: {self.entry.value}.{wrong}")
        self.code_of(checked)
        return checked

    def code(self) -> str:
        """The digest of the package's code as it is on disk now."""
        distribution = self.entry.dist
        entries = (self.entry,) if distribution is None else distribution.entry_points
        modules = {entry.module for entry in entries if entry.group in GROUPS}
        try:
            return code_digest(distribution, modules)
        except OSError as fault:
            raise PlugInError(f"plug-in {self}: its code cannot be read ({fault})") from None

    def code_of(self, config: type) -> str:
        """The digest of the package's code when the class `config` was loaded. Later changes on disk do not matter.
        For a class that `load` did not load, the first call counts as the loading.
        """
        if config not in _CODE:
            _CODE[config] = self.code()
        return _CODE[config]


@cache
def offers(group: str) -> dict[str, tuple[Offer, ...]]:
    """The offers of installed packages to a group of entry points, by kind. Nothing is imported.

    group: such as "p2p_sim.learners". The group "p2p_sim.mechanisms" includes the group "p2p_sim.protocols".
    """
    unsorted = list[Offer]()
    for name in (MECHANISMS, PROTOCOLS) if group == MECHANISMS else (group,):
        for entry in importlib.metadata.entry_points(group=name):
            package, version = ("unknown", "") if entry.dist is None else (entry.dist.name, entry.dist.version)
            unsorted.append(Offer(package, version, entry))
    ordered = sorted(unsorted, key=lambda offer: (offer.entry.name, str(offer)))
    return {kind: tuple(several) for kind, several in groupby(ordered, key=lambda offer: offer.entry.name)}


def packages() -> dict[str, str]:
    """The version of every installed package that offers a kind, by the package's name."""
    return {offer.package: offer.version for offer in offers_of_all()}


def codes() -> dict[str, str]:
    """The digest of the code on disk now, for every installed package that offers a kind, by the package's name."""
    return {name: offer.code() for name, offer in {offer.package: offer for offer in offers_of_all()}.items()}


def offers_of_all() -> list[Offer]:
    """The offers of installed packages to all groups."""
    return [offer for group in GROUPS if group != PROTOCOLS for several in offers(group).values() for offer in several]


def offer_of(group: str, kind: str) -> Offer | None:
    """The first offer of a kind by a plug-in, in one group of entry points. None: no plug-in offers this kind."""
    return next(iter(offers(group).get(kind, ())), None)


def maker_of(thing: object) -> Offer | None:
    """The first offer of the plug-in package that defines an object's class, perhaps an offer of another class. None:
    the class belongs to p2p-sim, or to a package without offers.
    """
    package = type(thing).__module__.partition(".")[0]
    if package == "p2p_sim":
        return None
    return next((offer for offer in offers_of_all() if offer.entry.module.partition(".")[0] == package), None)


def method_of(offer: Offer | None, owner: object, method: str) -> str:
    """The beginning of a message about the result of a plug-in's method; empty if there is no plug-in. An example is
    "plug-in own 1.0: OwnOverlay.graph: ".

    Args:
        offer: the entry point of the plug-in; None: no plug-in. owner: the object that has the method. method: the
        method's name.

    >>> method_of(None, Config(), "graph")
    ''
    """
    return "" if offer is None else f"plug-in {offer}: {type(owner).__name__}.{method}: "


def kinds_of(config: type[Config]) -> tuple[Any, ...]:
    """The values that a configuration class allows for the key `kind`; empty if its annotation is no `Literal[...]`."""
    return get_args(config.model_fields["kind"].annotation)


def checked_kind(named: str, config: Any, base: type[C], kind: str) -> type[C]:
    """The class `config` itself, after checks that it is a usable configuration class for one kind. A kind is the text
    by which scenarios choose the class.

    Args:
        named: words for the class, put first in each error message. config: what is checked; it may be anything. base:
        the class from which `config` must derive. kind: the only value that the class may allow for its key `kind`.

    Raises:
        PlugInError: `config` is no class derived from `base`, has another kind, or leaves an abstract method undefined.
        Or a method does not take the arguments of the base class's method, or is probably misspelt.
    """
    if not (isinstance(config, type) and issubclass(config, base)):
        raise PlugInError(f"{named} must be a class derived from {base.__module__}.{base.__qualname__}")
    if wrong := misfit(config, base):
        raise PlugInError(f"{named}.{wrong}")
    if inspect.isabstract(config):
        raise PlugInError(f"{named} lacks {', '.join(sorted(config.__abstractmethods__))}")
    if (kinds := kinds_of(config)) != (kind,):
        raise PlugInError(
            f"{named} needs kind: Literal[{kind!r}], the name of its entry point, not "
            f"{' or '.join(map(repr, kinds)) or 'any text'}"
        )
    return config


@cache
def kinds_within(package: str, base: type[C]) -> dict[str, type[C]]:
    """The configuration classes that the modules of a package define, by kind. A class without a kind is left out.

    base: the class from which they derive.

    Raises:
        PlugInError: a class lacks a method, or two classes have the same kind.
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
    """The annotation that adds plug-ins' kinds to a union of configuration classes. The key `kind` chooses a class of
    the union.

    A plug-in is imported when a scenario uses its kind, or when the JSON Schema is made. An unusable plug-in is an
    error only for its own kind.

    group: the group of entry points; an entry point's name is a kind. base: the class from which plug-ins' classes must
    derive. package: the package whose modules define p2p-sim's own kinds; if empty, the union lists p2p-sim's own
    classes.
    """

    group: str
    base: type[Config]
    package: str = ""

    def find(self, kind: str, own: Iterable[str]) -> type[Config] | None:
        """The class that a plug-in offers for a kind; None: no plug-in offers the kind.

        own: p2p-sim's own kinds in the union, which no plug-in may offer.

        Raises:
            PlugInError: a plug-in offers one of `own`, several plug-ins offer the kind, or the class cannot be used.
        """
        makers = offers(self.group).get(kind, ())
        if makers and kind in own:
            raise PlugInError(
                f"is a kind of p2p-sim itself, and plug-in {makers[0]} offers it too: rename or uninstall that one"
            )
        if len(makers) > 1:
            raise PlugInError(f"is offered by {' and by '.join(map(str, makers))}: rename or uninstall all but one")
        return makers[0].load(self.base) if makers else None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The pydantic schema that checks a value by the configuration class of its `kind`. Each of p2p-sim's own kinds
        has a separate schema. All other kinds share one schema. The shared schema looks for an installed plug-in only
        when it checks a value. So a plug-in is imported only when it is used.

        Args:
            source: the annotated union of p2p-sim's own classes, or their base class. handler: makes the schema of a
            class.
        """
        configs = self.own(source)
        choices: dict[Any, CoreSchema] = {kind: handler.generate_schema(config) for kind, config in configs.items()}
        own = tuple(choices)  # a tuple: a kind in a file may be a list, which cannot be hashed

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
        """The JSON Schema: a choice of p2p-sim's own classes and of all usable plug-ins' classes.

        Warns of each unusable plug-in, with the reason.
        """
        own = {kind: choice for kind, choice in schema["choices"].items() if kind != _OTHER}
        choices: dict[Any, CoreSchema] = dict(own)
        for kind in offers(self.group):
            try:
                if (config := self.find(kind, own)) is not None:
                    choices[kind] = config.__pydantic_core_schema__
            except PlugInError as error:
                warnings.warn(f"{self.group}: {kind}: {error}", stacklevel=2)
        return handler(core_schema.tagged_union_schema(choices, "kind"))

    def own(self, source: Any) -> dict[str, type[Config]]:
        """P2p-sim's own classes in the union, by kind; `source` is the annotated union or the base class."""
        if self.package:
            return kinds_within(self.package, self.base)
        configs = get_args(source) or (() if source is self.base else (source,))
        return {kinds_of(config)[0]: config for config in configs}

    def _validate(self, value: Any, info: ValidationInfo, own: Iterable[str]) -> Config:
        """The configuration that a value of a plug-in's kind describes; `own` are p2p-sim's own kinds."""
        if not isinstance(value, dict | self.base):
            raise PydanticCustomError("dict_type", "Input should be an object")
        kind = (value if isinstance(value, dict) else vars(value))["kind"]
        try:
            config = self.find(kind, own) if isinstance(kind, str) else None
        except PlugInError as error:
            raise PydanticCustomError("union_tag_plug_in", "{fault}", {"tag": kind, "fault": str(error)}) from None
        if config is None:
            raise self._unknown_kind(str(kind), own)
        if info.mode == "json":
            return config.model_validate_json(json.dumps(value))
        return config.model_validate(value)

    def _unknown_kind(self, kind: str, own: Iterable[str]) -> PydanticCustomError:
        """The error for a kind that neither p2p-sim nor a plug-in of this group has; `own` are p2p-sim's own kinds."""
        expected = ", ".join(repr(name) for name in (*own, *offers(self.group))) or "those of an installed plug-in"
        note = "no installed plug-in has this kind (pip install adds one)"
        for entry in importlib.metadata.entry_points(name=kind):
            if entry.group.startswith("p2p_sim") and entry.dist is not None:
                note = f"{entry.dist.name} offers this kind in the group {entry.group!r}, not in {self.group!r}"
        return PydanticCustomError(
            "union_tag_invalid",
            "kind '{tag}' does not match any of the expected ones: {expected_tags}",
            {"tag": kind, "expected_tags": expected, "note": note},
        )


def member(union: Any, kind: str) -> type[Config] | None:
    """The class of a kind in a union annotated with `PlugIns`; None if no usable class has the kind."""
    classes, plug_ins = get_args(union)
    own = plug_ins.own(classes)
    try:
        chosen: type[Config] | None = plug_ins.find(kind, own) or own.get(kind)
    except PlugInError:
        return None
    return chosen


DEBUG = "P2P_SIM_DEBUG"
"""If this environment variable is set, the command line shows the whole traceback of a plug-in's exception."""


def plug_in_fault(fault: BaseException) -> str | None:
    """A line that names a plug-in, its method, and the exception that the plug-in raised; None: no plug-in was running.

    The method is the one that the simulator called. The line number belongs to the last frame of the traceback that ran
    a plug-in's code.
    """
    modules = {offer.entry.module.partition(".")[0]: offer for offer in offers_of_all()}
    frames = [(frame, line) for frame, line in traceback.walk_tb(fault.__traceback__) if _top(frame) in modules]
    if not frames:  # SimPy raises a copy of an exception; the copy's cause is the exception itself
        return plug_in_fault(fault.__cause__) if fault.__cause__ is not None else None
    called, (last, line) = frames[0][0], frames[-1]
    message = " ".join(traceback.format_exception_only(fault)[-1].split())
    owner = called.f_locals.get("self")
    method = called.f_code.co_qualname if owner is None else f"{type(owner).__name__}.{called.f_code.co_name}"
    return f"plug-in {modules[_top(called)]}: {method} failed: {message} ({last.f_code.co_filename}, line {line})"


def plug_in_failure(fault: BaseException) -> str | None:
    """The line of `plug_in_fault`, with words on how to see the whole traceback. None: no plug-in was running, or the
    environment variable P2P_SIM_DEBUG is set. If it is set, the traceback itself is shown.
    """
    if os.environ.get(DEBUG) or (text := plug_in_fault(fault)) is None:
        return None
    return f"{text}; for the whole traceback set {DEBUG}=1"


def _top(frame: FrameType) -> str:
    """The top-level package of a frame's code."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
