"""How fast requests go out, on a clock of the test's own."""

import trio
import trio.testing

from memfs.model.errors import RateLimited, Unavailable
from memfs.transfer.pace import Pace, Paces


async def test_requests_are_spread_over_the_minute(autojump_clock: trio.testing.MockClock) -> None:
    pace = Pace(60)
    began = trio.current_time()

    async def request() -> float:
        return trio.current_time() - began

    times = [round(await pace.call(request)) for _ in range(5)]
    assert times == [0, 1, 2, 3, 4]


async def test_too_much_makes_everything_wait_and_go_on_more_slowly(autojump_clock: trio.testing.MockClock) -> None:
    pace = Pace()
    began = trio.current_time()
    refusals = 3

    async def request() -> float:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise RateLimited("too much")
        return trio.current_time() - began

    first = await pace.call(request)
    assert 5 + 10 + 20 <= first <= 36
    assert await pace.call(request) > first


async def test_a_service_that_never_has_room_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async def request() -> None:
        raise RateLimited("too much")

    began = trio.current_time()
    try:
        await Pace().call(request)
    except Unavailable:
        assert 600 < trio.current_time() - began <= 900
    else:
        raise AssertionError("it answered")


async def test_claude_gets_less_than_its_limits(autojump_clock: trio.testing.MockClock) -> None:
    async def minute(pace: Pace) -> int:
        count = 0
        with trio.move_on_after(60):
            while True:
                await pace.turn()
                count += 1
        return count

    assert 200 < await minute(Paces("https://api.anthropic.com").writes) < 300
    assert 800 < await minute(Paces("https://api.anthropic.com").reads) < 1200
    assert 9 < await minute(Paces("sqlite:///x", 10).writes) < 12
