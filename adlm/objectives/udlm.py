"""UDLM: noise is any real token, so a model may correct what stands there.

In the published form, with xbar = N alpha x + 1 - alpha and i = z_t, every position costs

    alpha'/(N alpha) [ N/xbar_i - N/xbar_theta_i
                       - sum_j (xbar_j / xbar_i) log(xbar_theta_i xbar_j / (xbar_theta_j xbar_i)) ],

which is the kernel's bound, point by point in z: see `kernels.py`.
"""

from __future__ import annotations

from adlm.objectives.anchored import AnchoredObjective
from adlm.objectives.kernels import KernelDiffusion
from adlm.registry import register


@register("objective", "udlm")
class UniformDiffusion(KernelDiffusion):
    """Tell which tokens are noise, and restore them."""

    kernels = ("uniform",)


@register("objective", "adlm-udlm")
class AnchoredUniformDiffusion(AnchoredObjective):
    """An anchor network in front of UDLM."""

    causal, exact = False, False
    parameterization = UniformDiffusion.parameterization
    base_class = UniformDiffusion
