"""Ed25519 signatures (RFC 8032, section 5.1) in plain Python: a reference for tests. It is slow and leaks timing."""

from __future__ import annotations

import hashlib
from functools import partial

from bursar.signing import Signer

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P

Point = tuple[int, int, int, int]


def _digest(data: bytes) -> int:
    return int.from_bytes(hashlib.sha512(data).digest(), "little")


def _add(a: Point, b: Point) -> Point:
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    s, t, u, v = f - e, h - g, h + g, f + e
    return s * t % P, u * v % P, t * u % P, s * v % P


def _multiply(number: int, point: Point) -> Point:
    total: Point = (0, 1, 1, 0)
    while number:
        if number & 1:
            total = _add(total, point)
        point, number = _add(point, point), number >> 1
    return total


def _base_point() -> Point:
    y = 4 * pow(5, P - 2, P) % P
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    x = P - x if x & 1 else x
    return x, y, 1, x * y % P


BASE = _base_point()


def _encode(point: Point) -> bytes:
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _expand(seed: bytes) -> tuple[int, bytes]:
    digest = hashlib.sha512(seed).digest()
    number = int.from_bytes(digest[:32], "little")
    return number & ((1 << 254) - 8) | 1 << 254, digest[32:]


def public_key(seed: bytes) -> bytes:
    return _encode(_multiply(_expand(seed)[0], BASE))


def sign(seed: bytes, text: bytes) -> bytes:
    number, prefix = _expand(seed)
    random = _digest(prefix + text) % ORDER
    point = _encode(_multiply(random, BASE))
    challenge = _digest(point + public_key(seed) + text) % ORDER
    return point + ((random + challenge * number) % ORDER).to_bytes(32, "little")


def reference_signer(seed: bytes, agent: str | None = None) -> Signer:
    """Returns a signer that needs no package."""
    return Signer(public_key(seed), partial(sign, seed), agent=agent)
