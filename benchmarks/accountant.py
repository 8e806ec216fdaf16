"""The exact accountant: seconds for one ε(δ) over all data sets, by cluster size."""

from analysis.privacy import LabelExchange
from benchmarks.timing import seconds


def main() -> None:
    """Print one line a setting."""
    print("accountant, ε at δ = 1e-5 over all data sets (α = 0.1)")
    for size in (36, 100, 300, 1000, 3000, 100_000, 1_000_000):
        for sampling_rate in (0.1, 0.5, 1.0):
            exchange = LabelExchange(size, 0.1, sampling_rate)
            found = []
            wall = seconds(lambda exchange=exchange, found=found: found.append(exchange.epsilon(1e-5)))
            bound = found[0]
            print(
                f"  n = {size:9,d}, θ = {sampling_rate}: ε in [{bound.epsilon_lower:.4f}, {bound.epsilon_upper:.4f}]"
                f"   {1e3 * wall:7.1f} ms"
            )


if __name__ == "__main__":
    main()
