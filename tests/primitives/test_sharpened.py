"""Confusions that items sharpen: values and slopes against the same softmax by torch."""

import numpy as np
import pytest
import torch
from torch import Tensor

import crowdppl
import crowdppl.primitives as cp
from crowdppl.primitives import softmax

DATA = crowdppl.Annotations.from_arrays([0, 0, 1, 1, 1, 2], [2, 0, 0, 1, 1, 2], [0, 2, 1, 1, 0, 2], repeats="last")


@pytest.mark.parametrize("piece", [softmax.PIECE, 20])
@pytest.mark.parametrize("lead", [((), ()), ((2,), (2,)), ((2, 1), (1,)), ((), (3,))])
def test_values_and_slopes_are_those_of_a_softmax(
    lead: tuple[tuple[int, ...], tuple[int, ...]], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax, "PIECE", piece)
    block, stream = DATA.as_block(), torch.Generator().manual_seed(0)
    logits = torch.randn(*lead[0], 3, 3, 3, generator=stream, dtype=torch.float64).requires_grad_()
    sharpness = torch.rand(*lead[1], 3, generator=stream, dtype=torch.float64).add(0.2).requires_grad_()

    def labels(logits: Tensor, sharpness: Tensor) -> Tensor:
        return cp.sharpened(block, logits, sharpness)(block.answer)

    x = (logits[..., block.annotator, :, :] * sharpness[..., block.item, None, None]).log_softmax(-1)
    torch.testing.assert_close(labels(logits, sharpness), cp.each_label(x)(block.answer))
    assert torch.autograd.gradcheck(labels, (logits, sharpness), fast_mode=True)
    assert torch.autograd.gradgradcheck(labels, (logits, sharpness), fast_mode=True)
    for one, other in ((logits, sharpness.detach()), (logits.detach(), sharpness)):
        assert torch.autograd.gradgradcheck(labels, (one, other), fast_mode=True)
    assert labels(logits, sharpness.float()).dtype == torch.float64


def test_large_logits_and_no_labels_at_all() -> None:
    block = DATA.as_block()
    steep = cp.sharpened(block, 1e3 * torch.eye(3).expand(3, 3, 3), torch.ones(3))(block.answer)
    assert torch.equal(steep.exp(), torch.eye(3)[block.answer])
    none = block.subset(np.arange(0), 1.0)
    assert cp.sharpened(none, torch.zeros(3, 3, 3), torch.ones(0))(none.answer).shape == (0, 3)
