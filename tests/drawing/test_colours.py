"""Colours that colour-blind readers tell apart, text on them that all can read, and no two meanings for one colour."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from cutegen.drawing.colours import (
    MOST_STEPS,
    OKABE_ITO,
    contrast,
    ink_on,
    luminance,
    mix,
    ramp,
    thread_colours,
)

# How dichromats see, on linear RGB: Machado, Oliveira and Fernandes (2009), table 1, severity 1.
VISION = {
    "everybody": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def lab(colour: str, vision: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of an sRGB colour (white point D65) as somebody sees it."""
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    seen = np.clip(vision @ linear, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ seen / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def difference(first: str, second: str, vision: np.ndarray) -> float:
    return float(np.linalg.norm(lab(first, vision) - lab(second, vision)))


@pytest.mark.parametrize("who", VISION)
def test_hues_differ_for_everybody(who: str) -> None:
    palette = thread_colours(8).palette
    assert len(set(palette)) == 8
    assert min(difference(a, b, VISION[who]) for a, b in combinations(palette, 2)) > 9


@pytest.mark.parametrize("who", VISION)
def test_the_ramp_keeps_its_order_for_everybody(who: str) -> None:
    lightness = [lab(colour, VISION[who])[0] for colour in ramp(32)]
    assert all(dark < light for dark, light in zip(lightness, lightness[1:], strict=False))


@pytest.mark.parametrize("who", VISION)
def test_neighbouring_threads_differ_for_everybody(who: str) -> None:
    for threads in (16, 32, 128, 256, 1024, 5000):
        colours = thread_colours(threads)
        seen = [colours.palette[colours.of(thread)] for thread in range(threads)]
        assert min(difference(a, b, VISION[who]) for a, b in zip(seen, seen[1:], strict=False)) > 4


def test_groups_of_threads_are_those_of_the_hardware() -> None:
    assert [thread_colours(n).group for n in (8, 9, 32, 33, 256, 257, 1024)] == [1, 4, 4, 32, 32, 128, 128]
    assert thread_colours(5000).group * len(OKABE_ITO) >= 5000
    colours = thread_colours(256)
    hues = [{colours.of(32 * warp + lane) for lane in range(32)} for warp in range(8)]
    assert sum(map(len, hues)) == len(set().union(*hues))  # no colour belongs to two warps


def test_text_can_be_read_on_every_colour() -> None:
    used = {*ramp(MOST_STEPS), *ramp(32), *ramp(1)}
    used |= {colour for threads in (8, 32, 256, 1024) for colour in thread_colours(threads).palette}
    assert min(contrast(ink_on(colour), colour) for colour in used) >= 4.5


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # a grey known to fail
    assert luminance("#808080") == pytest.approx(0.2158605)


def test_a_ramp_goes_from_dark_to_light_in_as_many_steps() -> None:
    for steps in (1, 2, 7, 10, 32, 128):
        colours = ramp(steps)
        assert len(colours) == len(set(colours)) == steps
        assert list(colours) == sorted(colours, key=luminance)
    assert ramp(7)[0] == "#440154" and ramp(7)[-1] == "#fde725"


def test_white_is_mixed_in() -> None:
    assert mix("#000000", 0.5) == "#808080" and mix("#d55e00", 0) == "#d55e00" and mix("#d55e00", 1) == "#ffffff"
