"""One network as two graphs: the one that is exported in the end, and the one that learns.

Both round at the same places by the same scales. The exported one is what `int8_ptq` makes:
captured in evaluation mode, BatchNorm folded into the convolutions. The learning one has the
BatchNorms back, as modules, behind convolutions with the weights as trained. It needs none of the
rewriting of torchao's `prepare_qat_pt2e`: weights are rounded symmetrically, each output channel
by its own scale, and BatchNorm multiplies whole output channels, so that rounding before it is
the same as rounding what is folded. And nothing but these BatchNorms can behave differently in
training: dropout and dropped blocks were left out when the graph was captured.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from enginehouse.quantizers._graph import is_observer
from enginehouse.quantizers._symmetric import find_kind

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node

    from enginehouse.quantizer import State


@dataclass(frozen=True)
class FoldedNorm:
    """A BatchNorm that `prepare` folds into the convolution before it.

    Attributes:
        conv: name of the convolution's node.
        weight: of the convolution, by its name in the network.
        bias: likewise; "" where it has none of its own.
        norm: name of the BatchNorm in the network.
    """

    conv: str
    weight: str
    bias: str
    norm: str

    @property
    def child(self) -> str:
        """What the BatchNorm is called in the graph that learns."""
        return f"norm_{self.conv}"


def list_folded(captured: GraphModule) -> list[FoldedNorm]:
    """What `prepare` will fold of a captured graph, as torchao decides it."""
    found = []
    for node in captured.graph.nodes:
        if str(node.target) != "aten.batch_norm.default" or find_kind(node.args[0]) != "conv":
            continue
        conv = node.args[0]
        bias = conv.args[2] if len(conv.args) > 2 else None
        found.append(
            FoldedNorm(
                conv=conv.name,
                weight=str(conv.args[1].target),
                bias="" if bias is None else str(bias.target),
                norm=str(node.args[3].target).removesuffix(".running_mean"),
            )
        )
    return found


def make_learning(
    net: torch.nn.Module, calibrated: GraphModule, folded: list[FoldedNorm]
) -> GraphModule:
    """The graph that learns.

    Args:
        net: the trained network, in evaluation mode, on the CPU; not changed.
        calibrated: the prepared graph of it, calibrated; not changed.
        folded: what was folded there.
    """
    from torch.fx import GraphModule

    from enginehouse.quantizers._qat_rounding import LearntRange, RoundedWeight

    learning = copy.deepcopy(calibrated)
    ranges: dict[Any, LearntRange] = {}  # an observer may stand in several places
    for node in learning.graph.nodes:
        if not is_observer(calibrated, node):
            continue
        rounding: torch.nn.Module = RoundedWeight()
        if node.args[0].op != "get_attr":
            observer: Any = calibrated.get_submodule(node.target)
            scale = float(observer.calculate_qparams()[0])
            rounding = ranges.setdefault(observer, LearntRange(scale))
        learning.set_submodule(node.target, rounding)
    nodes = {node.name: node for node in learning.graph.nodes}
    for each in folded:
        _unfold(each, nodes[each.conv], learning, net)
    learning.graph.lint()
    # A new module, with what the graph reads and nothing else; one that was captured refuses
    # train() and eval().
    return GraphModule(learning, learning.graph)


def _unfold(each: FoldedNorm, conv: Node, learning: GraphModule, net: torch.nn.Module) -> None:
    """The convolution as the network has it, and its BatchNorm behind."""
    graph: Any = learning.graph
    for name in filter(None, (each.weight, each.bias)):
        learning.get_parameter(name).data.copy_(net.get_parameter(name).data)
    if not each.bias:
        conv.update_arg(2, None)
        graph.eliminate_dead_code()  # the bias that folding made
    learning.add_submodule(each.child, _copy_norm(net.get_submodule(each.norm)))
    with graph.inserting_after(conv):
        norm = graph.call_module(each.child, (conv,))
    conv.replace_all_uses_with(norm, delete_user_cb=lambda user: user is not norm)


def _copy_norm(norm: Any) -> torch.nn.Module:
    """The BatchNorm alone: some families let one activate as well, which the graph does itself."""
    import torch

    copied = torch.nn.BatchNorm2d(
        norm.num_features, norm.eps, norm.momentum, affine=norm.affine
    ).eval()
    copied.load_state_dict({name: value.clone() for name, value in norm.state_dict().items()})
    return copied


def fold(calibrated: GraphModule, learning: GraphModule, folded: list[FoldedNorm]) -> State:
    """The state of the exported graph with all that was learnt; each tensor is its own.

    Args:
        calibrated: its weights and scales are replaced.
        learning: what `make_learning` made of it, trained.
        folded: what is folded in the one and not in the other.
    """
    import torch

    learnt = {name: value.detach().cpu() for name, value in learning.named_parameters()}
    nodes = {node.name: node for node in calibrated.graph.nodes}
    for each in folded:
        weight, bias = _fold_one(each, learning)
        learnt |= {each.weight: weight, str(nodes[each.conv].args[2].target): bias}
    with torch.no_grad():
        for name, parameter in calibrated.named_parameters():
            parameter.copy_(learnt[name])
        for node in filter(lambda node: is_observer(calibrated, node), nodes.values()):
            observer: Any = calibrated.get_submodule(node.target)
            if node.args[0].op == "get_attr":
                observer.reset_min_max_vals()
                observer(calibrated.get_parameter(node.args[0].target))
            else:
                learnt_range: Any = learning.get_submodule(node.target)
                observer.scale.copy_(learnt_range.scale)
    return {name: value.clone() for name, value in calibrated.state_dict().items()}


def _fold_one(each: FoldedNorm, learning: GraphModule) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of a convolution with its BatchNorm folded, by torch's own function."""
    from torch.nn.utils.fusion import fuse_conv_bn_weights

    norm: Any = learning.get_submodule(each.child)
    bias = learning.get_parameter(each.bias) if each.bias else None
    weight, bias = fuse_conv_bn_weights(
        learning.get_parameter(each.weight),
        bias,
        norm.running_mean,
        norm.running_var,
        norm.eps,
        norm.weight,
        norm.bias,
    )
    return weight.detach().cpu(), bias.detach().cpu()
