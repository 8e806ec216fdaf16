"""The film of an exchange: one HTML page that plays one simulated run, message by message."""

from p2p_sim.film.film_html import film_html
from p2p_sim.film.film_record import film_of

__all__ = ["film_html", "film_of"]
