"""Learning rates as functions of the step, so that schedules need no state."""

from math import cos, pi

# Fraction of the steps over which "one-cycle" rises, and its first rate relative to the peak.
_WARM_UP, _START = 0.3, 0.04


def learning_rate(schedule, peak, step, n_steps):
    """Return the learning rate of one step, counted from 0, of `n_steps` steps.

    ``"cosine"`` falls from `peak` to zero along half a cosine [1]_. ``"one-cycle"`` rises linearly
    from a 25th of `peak` over the first 30 % of the steps and then falls like ``"cosine"`` [2]_;
    the momentum does not change.

    References
    ----------
    .. [1] I. Loshchilov, F. Hutter. SGDR: Stochastic Gradient Descent with Warm Restarts.
       ICLR 2017.
    .. [2] L. N. Smith, N. Topin. Super-Convergence: Very Fast Training of Neural Networks
       Using Large Learning Rates. 2019.
    """
    if schedule == "constant":
        return peak
    warm_up = _WARM_UP * n_steps if schedule == "one-cycle" else 0.0
    if step < warm_up:
        return peak * (_START + (1.0 - _START) * step / warm_up)
    return peak * 0.5 * (1.0 + cos(pi * (step - warm_up) / (n_steps - warm_up)))
