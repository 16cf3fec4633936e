"""Log-normals that labels tilt, against quadrature."""

import numpy as np
import pytest
import torch
from scipy import integrate

from crowdppl.primitives.log_normals import CELLS, TiltedLogNormal, grid_of

TILTS = [
    (0.0, 0.0, 1.0),
    (3.0, 2.0, 1.0),
    (0.0, 1e6, 0.01),
    (200.0, 1e-3, 0.02),
    (-3.0, 2.0, 1.0),
    (5e3, 300.0, 1e-2),
]


@pytest.mark.parametrize(("power", "rate", "precision"), TILTS)
def test_a_grid_integrates_as_quadrature_does(power: float, rate: float, precision: float) -> None:
    tilt = [torch.tensor(x, dtype=torch.float64) for x in (power, rate, precision)]
    grid = grid_of(*tilt)
    mode = float(grid.mode)
    assert power - rate * np.exp(mode) - precision * mode == pytest.approx(0, abs=1e-9 * (1 + power))
    ends = mode + float(grid.distance[0]), mode + float(grid.distance[-1])

    def integral(term: str) -> float:
        def density(u: float) -> float:
            d = u - mode
            log = -rate * np.exp(mode) * (np.expm1(d) - d) - precision * d * d / 2
            return float(np.exp(log) * {"one": 1, "u": u, "square": u * u}[term])

        return integrate.quad(density, *ends, limit=500, points=[mode], epsabs=0)[0]

    total = integral("one")
    top = power * mode - rate * np.exp(mode) - precision * mode**2 / 2
    assert float(grid.log_total) == pytest.approx(np.log(total) + top, abs=1e-7)
    u = grid.mode + grid.distance
    mean, square = integral("u") / total, integral("square") / total
    assert float(grid.mean(u)) == pytest.approx(mean, abs=1e-6)
    assert float(grid.mean(u.square())) == pytest.approx(square, rel=1e-6)
    n = 40_000  # evenly spaced levels: their quantiles have the distribution's moments, but for the ends
    drawn = grid_of(*tilt, points=CELLS).quantile((torch.arange(n, dtype=torch.float64) + 0.5) / n)
    sd = np.sqrt(square - mean**2)
    assert float(drawn.mean()) == pytest.approx(mean, abs=0.002 * sd)
    assert float(drawn.std()) == pytest.approx(sd, rel=0.005)


def test_without_labels_it_is_log_normal() -> None:
    own = TiltedLogNormal(*(torch.tensor(x) for x in (0.5, 0.0, 2.0)))
    same, x = torch.distributions.LogNormal(0.25, 0.5**0.5), torch.tensor([0.1, 1.0, 3.0])
    torch.testing.assert_close(own.log_prob(x), same.log_prob(x))
    torch.testing.assert_close(own.mean, same.mean)
