"""How often a lost commit is tried again: a policy as a value, with time as an argument."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance as arguments, so that tests neither sleep nor guess."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


REAL_CLOCK = Clock()


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential back-off with jitter, bounded by attempts and by a deadline.

    Args:
        attempts: How many times a commit is tried in all, at least 1. 1 means: fail at the first conflict.
        wait_initial: Seconds before the second attempt, before jitter.
        wait_max: The longest wait in seconds, before jitter.
        deadline: Seconds after which no further attempt starts.
        jitter: The share of each wait that is random, from 0 (none) to 1 ("full jitter": M. Brooker,
            "Exponential Backoff and Jitter", AWS Architecture Blog, 2015).

    Raises:
        ValueError: A policy without attempts, or with a negative time.
    """

    attempts: int = 8
    wait_initial: float = 0.2
    wait_max: float = 10.0
    deadline: float = 300.0
    jitter: float = 1.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"A commit is tried at least once: attempts={self.attempts}.")
        for name in ("wait_initial", "wait_max", "deadline"):
            if not getattr(self, name) >= 0:  # NaN is neither below nor above.
                raise ValueError(f"{name} is a number of seconds from 0, not {getattr(self, name)}.")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter is a share from 0 to 1, not {self.jitter}.")

    def wait(self, attempt: int, random: Callable[[], float]) -> float:
        """Seconds to wait after `attempt` (from 1) was lost; `random` draws from [0, 1)."""
        full = min(self.wait_max, self.wait_initial * 2 ** min(attempt - 1, 60))
        return full * (1 - self.jitter * random())

    def allows(self, attempt: int, elapsed: float) -> bool:
        """Whether another attempt may start after `attempt` attempts and `elapsed` seconds."""
        return attempt < self.attempts and elapsed < self.deadline
