"""Sums over classes that draw: the right counts on average, whole, replayable, and refused where meaningless."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from crowdppl.errors import MethodError
from crowdppl.primitives import log_gaussian, logsumexp
from crowdppl.primitives.sums import Summing, draw_counts, summing


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def logits(*shape: int, seed: int = 0) -> Tensor:
    return (2 * torch.randn(*shape, generator=stream(seed), dtype=torch.float64)).requires_grad_()


def drawn(f: Callable[[Tensor], Tensor], x: Tensor, how: Summing) -> Tensor:
    with summing(how):
        value = f(x)
    return torch.autograd.grad(value, x)[0]


def test_the_plain_sum_is_torchs_own_and_differentiates_twice() -> None:
    x = logits(4, 5)
    torch.testing.assert_close(logsumexp(x), x.logsumexp(-1))
    torch.testing.assert_close(logsumexp(x, dim=0), x.logsumexp(0))
    assert torch.autograd.gradcheck(logsumexp, (x,))
    assert torch.autograd.gradgradcheck(logsumexp, (x,))
    assert torch.autograd.gradgradcheck(lambda t: logsumexp(t, dim=0).square(), (x,))
    hessian = torch.autograd.functional.hessian(lambda t: logsumexp(t), x[0].detach())
    p = x[0].detach().softmax(-1)
    torch.testing.assert_close(hessian, torch.diag(p) - torch.outer(p, p))


def test_impossible_alternatives_have_no_share_and_no_gradient() -> None:
    x = torch.tensor([[0.0, -torch.inf, 1.0]], dtype=torch.float64, requires_grad=True)
    for how in (Summing(), Summing("draw", stream())):
        g = drawn(lambda t: logsumexp(t).sum(), x, how)
        assert torch.isfinite(g).all() and g[0, 1] == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_sums_of_the_impossible_and_of_what_lies_far_apart(dtype: torch.dtype) -> None:
    rows = [[-torch.inf, -torch.inf], [0.0, -torch.inf], [0.0, -1e3], [1e30, -1e30], [-1e30, -1e30], [-745.0, 0.5]]
    x = torch.tensor(rows, dtype=dtype)
    torch.testing.assert_close(
        logsumexp(x), x.logsumexp(-1), rtol=1e-15 if dtype == torch.float64 else 1e-7, atol=0
    )


def nested(x: Tensor) -> Tensor:
    """Three items whose state is summed out, above one table cell summed for all of them (as in mace)."""
    table = logsumexp(torch.stack([x[:2], x[2:4]], -1))  # (2, 3): two answers, each known or guessed
    items = table[torch.tensor([0, 0, 1])] + x[4]  # (3 items, 3 classes)
    return logsumexp(items).sum()


def test_draws_have_the_expected_counts_as_their_mean_at_every_depth() -> None:
    x = logits(5, 3, seed=1)
    expected = drawn(nested, x, Summing())
    n = 1000
    with summing(Summing("draw", stream(2))):
        value = nested(x)
    draws = torch.stack([torch.autograd.grad(value, x, retain_graph=True)[0] for _ in range(n)])
    assert torch.equal(draws, draws.round())
    assert bool((draws >= 0).all())
    # Three items: three counts in the upper sum and, below, the same three again.
    assert bool((draws[:, 4].sum(-1) == 3).all()) and bool((draws[:, :4].sum((1, 2)) == 3).all())
    error = draws.std(0) / n**0.5
    assert bool(((draws.mean(0) - expected).abs() <= 4.5 * error + 1e-9).all())
    # Jointly, too: item by item the upper draw is what the lower sums pass on.
    assert torch.equal(draws[:, 0] + draws[:, 2] + draws[:, 1] + draws[:, 3], draws[:, 4])


def test_many_at_once_are_split_as_a_multinomial() -> None:
    p = torch.tensor([0.5, 0.1, 0.0, 0.4], dtype=torch.float64)
    counts = torch.full((2000,), 7.0, dtype=torch.float64)
    out = draw_counts(counts, p.unsqueeze(1).expand(4, 2000).contiguous(), stream(3))
    assert torch.equal(out.sum(0), counts) and bool((out[2] == 0).all())
    np.testing.assert_allclose(out.mean(1), 7 * p, atol=4 * (7 * 0.25 / 2000) ** 0.5)
    covariance = np.cov(out.numpy())
    wanted = 7 * (torch.diag(p) - torch.outer(p, p)).numpy()
    np.testing.assert_allclose(covariance, wanted, atol=0.2)
    for k in (0, 1, 3):
        seen = np.bincount(out[k].long().numpy(), minlength=8)
        chance = stats.binom(7, float(p[k])).pmf(np.arange(8))
        keep = chance * 2000 >= 5
        merged = [np.append(a[keep], a[~keep].sum()) for a in (seen, 2000 * chance)]
        assert stats.chisquare(*[a[merged[1] > 0] for a in merged]).pvalue > 1e-4


def test_one_each_follows_the_shares_and_empty_rows_draw_nothing() -> None:
    p = torch.tensor([0.0, 0.3, 0.7], dtype=torch.float64)
    share = p[:, None, None].expand(3, 100, 100).contiguous()
    counts = (torch.arange(10_000) % 5 == 0).double().reshape(100, 100)  # sparse: only those rows are drawn
    out = draw_counts(counts, share, stream(4))
    assert torch.equal(out.sum(0), counts) and bool((out[0] == 0).all())
    assert stats.binomtest(int(out[1].sum()), 2000, 0.3).pvalue > 1e-4


def test_zero_is_never_drawn_even_when_the_uniform_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "rand", lambda shape, **kw: torch.zeros(shape, dtype=kw["dtype"]))
    share = torch.tensor([0.0, 1.0], dtype=torch.float64).unsqueeze(1)
    assert draw_counts(torch.ones(1, dtype=torch.float64), share, None)[:, 0].tolist() == [0, 1]


def test_a_replay_returns_the_recorded_counts_whatever_the_values() -> None:
    x = logits(5, 3, seed=5)
    record = Summing("draw", stream(6))
    first = drawn(nested, x, record)
    again = drawn(
        nested, (x.detach() + 1.7 * torch.arange(3)).requires_grad_(), Summing("replay", tape=record.tape)
    )
    assert torch.equal(first, again)


@pytest.mark.parametrize("power", [0.5, 1.01])
def test_counts_that_are_not_whole_are_refused_by_name(power: float) -> None:
    def f(t: Tensor) -> Tensor:
        return power * logsumexp(t, name="knows").sum()

    with pytest.raises(MethodError, match="sum knows"):
        drawn(f, logits(4, 3), Summing("draw", stream()))
    drawn(f, logits(4, 3), Summing())


def test_float32_counts_are_rounded_before_they_are_split() -> None:
    x = logits(1, 3).detach().float().requires_grad_()
    with summing(Summing("draw", stream())):
        total = logsumexp(x)
    (out,) = torch.autograd.grad(total, x, torch.tensor([1000.0002]))
    assert float(out.sum()) == 1000 and torch.equal(out, out.round())


def test_a_named_sum_tells_the_share_of_each_alternative() -> None:
    x = logits(4, 3)
    for how in (Summing(), Summing("draw", stream())):
        how.probes["knows"] = None
        with summing(how):
            value = logsumexp(x, name="knows").sum()
        probe = how.probes["knows"]
        at_x, share = torch.autograd.grad(value, [x, probe])
        assert torch.equal(at_x, share)


def coefficients(n: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    c, h, p = torch.randn(3, n, generator=stream(seed), dtype=torch.float64)
    return c.requires_grad_(), h.requires_grad_(), (p.exp() + 0.2).requires_grad_()


def test_a_gaussian_integral_is_that_of_quadrature_and_its_gradient_the_moments() -> None:
    given = coefficients()
    out = log_gaussian(*given)
    c, h, p = (x.detach().numpy() for x in given)
    for n in range(3):
        density = lambda x, n=n: np.exp(c[n] + h[n] * x - p[n] * x**2 / 2)  # noqa: E731
        moments = [integrate.quad(lambda x, k=k, f=density: x**k * f(x), -40, 40)[0] for k in range(3)]
        assert out[n].item() == pytest.approx(np.log(moments[0]), rel=1e-9)
        got = [g[n].item() for g in torch.autograd.grad(out.sum(), given, retain_graph=True)]
        wanted = [1.0, moments[1] / moments[0], -moments[2] / moments[0] / 2]
        assert got == pytest.approx(wanted, rel=1e-7)
    assert torch.autograd.gradgradcheck(log_gaussian, given)


def two_classes(c: Tensor, h: Tensor, p: Tensor) -> Tensor:
    """One of two integrals, chosen by a class that is summed out."""
    return logsumexp(log_gaussian(c, h, p))


def test_draws_of_integrals_have_the_expected_moments_also_below_a_class() -> None:
    """With 6,000 draws, an error beyond 4.5 standard errors has chance 7e-6 for each number."""
    given, n = coefficients(2, seed=1), 6000
    expected = torch.autograd.grad(two_classes(*given), given)
    many = [x.detach().expand(n, 2).clone().requires_grad_() for x in given]
    with summing(Summing("draw", stream(2))):
        value = two_classes(*many).sum()
    chosen, x, square = draws = torch.autograd.grad(value, many)
    for wanted, found in zip(expected, draws, strict=True):
        assert ((found.mean(0) - wanted).abs() <= 4.5 * found.std(0) / n**0.5).all()
    assert (chosen.sum(-1) == 1).all() and torch.allclose(square, -x.square() / 2)


def test_a_drawn_integral_is_replayed_elsewhere_and_named() -> None:
    given, record = coefficients(), Summing("draw", stream(), probes={"x": None})
    with summing(record):
        value = log_gaussian(*given, name="x").sum()
    first = torch.autograd.grad(value, [*given, record.probes["x"]])
    torch.testing.assert_close(first[3], torch.stack([first[1], first[1].square()]))
    with summing(Summing("replay", tape=record.tape)):
        value = log_gaussian(*(2 * x for x in given)).sum()
    second = torch.autograd.grad(value, given)
    assert all(torch.equal(2 * a, b) for a, b in zip(first[:3], second, strict=True))


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_an_integral_that_is_not_used_once_is_not_drawn(factor: float) -> None:
    given = coefficients()
    with summing(Summing("draw", stream())), pytest.raises(MethodError, match="height"):
        torch.autograd.grad(factor * log_gaussian(*given, name="height").sum(), given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_alternatives_that_lie_along_memory_add_up_as_others_do(dtype: torch.dtype) -> None:
    x = torch.randn(3, 5, 300, dtype=torch.float64, generator=stream()).to(dtype)
    along, across = (y.requires_grad_() for y in (x.movedim(-1, 0), x.movedim(-1, 0).contiguous()))
    assert along.stride(0) == 1 != across.stride(0)
    one, other = logsumexp(along, dim=0), logsumexp(across, dim=0)
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(one, x.logsumexp(-1))
    weight = torch.arange(15.0, dtype=dtype).reshape(3, 5)
    pairs = ((one, along), (other, across))
    torch.testing.assert_close(*(torch.autograd.grad((weight * y).sum(), z)[0] for y, z in pairs))
