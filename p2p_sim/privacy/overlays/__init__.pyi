from .fetch_distribution import ANY_FETCHES as ANY_FETCHES
from .fetch_distribution import FetchDistribution as FetchDistribution
from .realised_network import CappedFetch as CappedFetch
from .realised_network import UniformSources as UniformSources
from .regular_overlay import LARGEST_DEGREE as LARGEST_DEGREE
from .regular_overlay import RegularExchange as RegularExchange
from .regular_overlay import smallest_degree as smallest_degree
