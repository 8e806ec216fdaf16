"""Whose code raised an exception: what is said where a plug-in fails."""

import os
import traceback
from types import FrameType

from p2p_sim.base.plugins import offers_of_all

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
    what = " ".join(traceback.format_exception_only(fault)[-1].split())
    owner = called.f_locals.get("self")
    method = called.f_code.co_qualname if owner is None else f"{type(owner).__name__}.{called.f_code.co_name}"
    return f"plug-in {modules[_top(called)]}: {method} failed: {what} ({last.f_code.co_filename}, line {line})"


def plug_in_failure(fault: BaseException) -> str | None:
    """The same line, and how to see more; None where the whole traceback is wanted, or no plug-in was running."""
    if os.environ.get(DEBUG) or (text := plug_in_fault(fault)) is None:
        return None
    return f"{text}; for the whole traceback set {DEBUG}=1"


def _top(frame: FrameType) -> str:
    """The top-level package of a frame's code."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
