"""How different colours look, also to those who see fewer of them.

Colours are sRGB of 0 to 255. The matrices of the three kinds of colour blindness, complete ones, are those of Machado,
Oliveira and Fernandes (2009); distances and lightness are Oklab's.
"""

import math

PHASES = ("queue", "admission", "prefill", "transfer", "decode", "network")
VISIONS = (
    ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
)


def _linear(colour):
    scaled = [channel / 255 for channel in colour]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in scaled]


def _times(matrix, vector):
    return [sum(factor * value for factor, value in zip(row, vector)) for row in matrix]


def _oklab(linear):
    r, g, b = (min(1, max(0, value)) for value in linear)
    cones = (
        0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b,
        0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b,
        0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b,
    )
    return _times(
        (
            (0.2104542553, 0.7936177850, -0.0040720468),
            (1.9779984951, -2.4285922050, 0.4505937099),
            (0.0259040371, 0.7827717662, -0.8086757660),
        ),
        [value ** (1 / 3) for value in cones],
    )


def lightness(colour):
    """0 of black to 1 of white."""
    return _oklab(_linear(colour))[0]


def distance_for_everybody(first, second):
    """The distance to the eyes that tell the two apart worst."""
    return min(
        math.dist(_oklab(_times(vision, _linear(first))), _oklab(_times(vision, _linear(second)))) for vision in VISIONS
    )


def contrast(first, second):
    """The ratio of WCAG 2: 1 to 21."""
    low, high = sorted(
        sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), _linear(colour)))
        for colour in (first, second)
    )
    return (high + 0.05) / (low + 0.05)
