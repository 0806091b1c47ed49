"""Epsilons of Google's dp_accounting (privacy loss distributions) on settings drawn at random.

usage: make_accounting.py OUT.csv        (kept as tests/privacy/accounting_peer.csv)

Needs `pip install --require-hashes -r tools/packages/accounting.txt`, in an environment of its own: nothing else here uses it. `epsilon` is what it
reports at its default interval of losses, 1e-4, and `coarse` at twice that: how far the two are apart tells how far its
answer is from the limit.
"""
import csv
import math
import sys

import dp_accounting
import numpy
from dp_accounting.pld import pld_privacy_accountant

SETTINGS = 40
# The largest published run: an expected batch of 517,989 out of 1 / delta = 9.09e9 sequences.
LARGEST = {"q": 517989 / 9.09e9, "sigma": 0.614, "steps": 100000, "delta": 1.1e-10}


def epsilon(setting, interval):
    accountant = pld_privacy_accountant.PLDAccountant(value_discretization_interval=interval)
    step = dp_accounting.PoissonSampledDpEvent(setting["q"], dp_accounting.GaussianDpEvent(setting["sigma"]))
    return accountant.compose(step, setting["steps"]).get_epsilon(setting["delta"])


def drawn(random):
    def between(low, high):  # evenly in the logarithm, and short enough to be read
        return float(f"{low * (high / low) ** random.random():.3g}")
    return {"q": between(1e-4, 1), "sigma": between(0.5, 20), "steps": int(between(1, 1e5)), "delta": between(1e-8, 1e-4)}


def settings():
    yield LARGEST
    random = numpy.random.default_rng(20260)
    count = 1
    while count < SETTINGS:
        setting = drawn(random)
        # About the signal to noise of the whole run. Beyond, nobody would train, or the grids need minutes.
        if 0.1 < math.sqrt(setting["steps"] * math.expm1(setting["sigma"] ** -2)) * setting["q"] < 5:
            yield setting
            count += 1


with open(sys.argv[1], "w", newline="") as file:
    out = csv.DictWriter(file, ["q", "sigma", "steps", "delta", "coarse", "epsilon"], lineterminator="\n")
    out.writeheader()
    for setting in settings():
        out.writerow({**setting, "coarse": epsilon(setting, 2e-4), "epsilon": epsilon(setting, 1e-4)})
        file.flush()
