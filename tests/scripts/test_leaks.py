"""The soak's judgement of memory and packet buffers: a leak fails it, other growth does not."""

import random
from collections.abc import Sequence

from tests.bed.leaks import kib_per_hour, leaks, loses_buffers

_START_KIB = 60_000
_SECONDS = 90
_WARM_UP = 30.0


def _memory(kib_per_second: float, seed: int) -> list[tuple[float, int]]:
    """A sample a second: growth of the warm-up that ends, noise of a few pages, and a leak."""
    noise = random.Random(seed)
    return [
        (
            second + noise.random() / 10,
            round(_START_KIB + 40 * min(second, 25) + noise.choice((0, 0, 4, 8)) + kib_per_second * second),
        )
        for second in range(_SECONDS)
    ]


class TestJudgement:
    """Slopes of made-up soaks."""

    def _leaks(self, samples: Sequence[tuple[float, int]]) -> bool:
        slope = kib_per_hour(samples, _WARM_UP)
        assert slope is not None
        return leaks(slope)

    def test_a_leak_fails(self) -> None:
        """Two pages a second are 28,800 KiB an hour; half a page is 7,200."""
        for seed in range(50):
            assert self._leaks(_memory(8.0, seed)), seed
            assert self._leaks(_memory(2.0, seed)), seed

    def test_a_leak_of_one_page_in_two_seconds_in_steps_fails(self) -> None:
        """The kernel counts whole pages."""
        assert self._leaks([(second, _START_KIB + second // 2 * 4) for second in range(_SECONDS)])

    def test_warming_up_is_no_leak(self) -> None:
        """What grows before the slope is taken, and then no more."""
        for seed in range(50):
            assert not self._leaks(_memory(0.0, seed)), seed

    def test_one_step_up_is_no_leak(self) -> None:
        """Half a MiB at once, wherever, as an arena of the allocator's."""
        for at in range(_SECONDS):
            samples = [(second, _START_KIB + (512 if second >= at else 0)) for second in range(_SECONDS)]
            assert not self._leaks(samples), at

    def test_samples_that_stand_out_are_no_leak(self) -> None:
        """One in seven is a MiB higher."""
        samples = [(second, _START_KIB + (1024 if second % 7 == 6 else 0)) for second in range(_SECONDS)]
        assert not self._leaks(samples)

    def test_too_short_a_soak_says_nothing(self) -> None:
        """It is not judged, rather than judged good."""
        assert kib_per_hour(_memory(8.0, 1)[:50], _WARM_UP) is None

    def test_buffers_that_are_lost_fail(self) -> None:
        """Two a batch over fifty batches, beside the frames that wait; and one batch proves nothing."""
        waiting = random.Random(1)
        assert loses_buffers([1024 + waiting.randint(2, 22) + 2 * batch for batch in range(50)])
        assert loses_buffers([1024])

    def test_frames_that_wait_are_no_loss(self) -> None:
        """The numbers are those after the batches of a soak."""
        for seed in range(50):
            waiting = random.Random(seed)
            assert not loses_buffers([1024 + waiting.randint(1, 22) for _ in range(12)]), seed
