"""`python -m tests.benchmarks.picture`: draws the picture of README: simulated annotators of built-in images."""

import warnings
from pathlib import Path

import matplotlib

import crowdppl
from tests.benchmarks import results

PATH = results.ROOT / "docs" / "pictures" / "annotators.png"
WIDTH, HEIGHT, DPI = 10.0, 4.2, 110


def draw(path: Path = PATH) -> Path:
    """How often each annotator is right, and how one of them errs, learned without any known truth."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    crowd = crowdppl.digits(seed=0)
    with warnings.catch_warnings(action="ignore", category=crowdppl.errors.DoubtWarning):
        # of the spammers, whom the picture shows
        posterior = crowdppl.fit("hierarchical_dawid_skene", crowd.data, inference="vb", seed=0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, HEIGHT), layout="constrained", width_ratios=(1.2, 1))
    posterior.plot_annotators(ax=left)
    posterior.plot_confusion("pairwise_flipper-1", ax=right)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    plt.close(figure)
    return path


if __name__ == "__main__":
    print(f"wrote {draw()}")
