"""Tests, and the programs for slow validation: they judge the code, not what another code has computed."""

import os

os.environ["P2P_SIM_CACHE"] = "off"
