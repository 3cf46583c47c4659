from __future__ import annotations

from gateway.edge.routing import Attempt, Routing
from gateway.prompt.inference_request import InferenceRequest
from gateway.router.prepared import Prepared
from gateway.router.router import Router
from tests.fakes.stand_in_router import StandInAttempt, StandInRouter


def _real(router: Router) -> Routing[Prepared]:
    return router


def _stand_in(router: StandInRouter) -> Routing[InferenceRequest]:
    return router


def test_the_real_router_and_the_tests_stand_in_have_the_same_shape() -> None:
    """The type checker proves it; this proves that both still exist."""
    attempt: Attempt = StandInAttempt.__new__(StandInAttempt)
    assert all(callable(fits) for fits in (_real, _stand_in, attempt.end))
