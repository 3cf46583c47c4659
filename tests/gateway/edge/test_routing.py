"""The router has the shape that the edge asks for, and so has its stand-in."""

from __future__ import annotations

from gateway.edge.routing import Routing
from gateway.router.prepared import Prepared
from gateway.router.router import Router
from tests.fakes.stand_in_router import StandInPrepared, StandInRouter


def test_routers_have_the_shape() -> None:
    """The type checker does the work; this sees that it has something to check."""

    def real(router: Router) -> Routing[Prepared]:
        return router

    def stand_in(router: StandInRouter) -> Routing[StandInPrepared]:
        return router

    assert stand_in(router := StandInRouter([])) is router
    assert real.__annotations__["router"] == "Router"
