"""Checks and problems for tests of solvers and maps, also those of third parties."""

from rankplug.testing.cases import Problem, make_problem, pair_accuracy
from rankplug.testing.contract import ContractCheck, contract_checks
from rankplug.testing.maps import MapCheck, map_checks
from rankplug.testing.toy import PairDirection

__all__ = [
    "ContractCheck",
    "MapCheck",
    "PairDirection",
    "Problem",
    "contract_checks",
    "make_problem",
    "map_checks",
    "pair_accuracy",
]
