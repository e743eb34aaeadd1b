"""CISPO written again, as a surrogate of one's own. See docs/techniques-of-your-own.md.

groupwise train objective.surrogate=function objective.surrogate.path=examples/own_cispo.py:own_cispo
"""

import groupwise


@groupwise.surrogate(formula="sg[min(r, {cap})]·A·log π", bounds_ratio=True, bounds_stop_gradient=False)
def own_cispo(inputs: groupwise.SurrogateInputs, cap: float = 5.0) -> groupwise.SurrogateOutputs:
    """The ratio is a detached, capped weight, and no token loses its gradient."""
    ratio_N = inputs.ratio_N.detach()
    weight_N = ratio_N.clamp(max=cap)
    loss_N = -weight_N * inputs.advantages_N * inputs.new_logps_N
    # CISPO has no lower bound. The mean of each of `measures` is a metric, here policy/own/weight.
    return groupwise.SurrogateOutputs(loss_N, ratio_N < 0, ratio_N > cap, measures={"weight": weight_N})
