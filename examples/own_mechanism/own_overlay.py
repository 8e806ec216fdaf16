"""An overlay of one's own, for p2p-sim."""

from typing import Any, Literal

from p2p_sim import extend


class StarConfig(extend.GraphOverlay):
    """One user of every cluster, drawn at random, knows all others, who know her alone."""

    kind: Literal["star"] = "star"

    def expected_degree(self, size: int) -> float:
        return 2.0

    def graph(self, size: int, seed: int) -> Any:
        import networkx as nx

        return extend.edges_of(nx.star_graph(size - 1))
