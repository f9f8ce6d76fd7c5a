"""Checks and problems for tests of solvers, also those of third parties."""

from rankplug.testing.cases import Problem, make_problem, pair_accuracy
from rankplug.testing.contract import ContractCheck, contract_checks
from rankplug.testing.toy import PairDirection

__all__ = [
    "ContractCheck",
    "PairDirection",
    "Problem",
    "contract_checks",
    "make_problem",
    "pair_accuracy",
]
