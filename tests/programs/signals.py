"""Signals and optics: filters, spectrograms, demodulation, pitch, cepstra, thin films, diffraction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.fft import fft2, fftfreq, ifft2, irfft, rfft, rfftfreq
from numpy.lib.stride_tricks import sliding_window_view

from tests.programs.program import ExampleProgram


def fir(x, taps):
    """The same filter three ways: tap by tap, by np.convolve and by FFT; and its group of differences."""
    n, m = x.shape[-1], len(taps)
    y = np.zeros(n + m - 1)
    for k in range(m):
        y[k : k + n] += taps[k] * x
    by_library = np.convolve(x, taps)
    size = 1 << (n + m - 1).bit_length()
    by_fft = irfft(rfft(x, size) * rfft(taps, size), size)[: n + m - 1]
    spread = np.ptp([y, by_library, by_fft], axis=0).max()
    return y[m // 2 : m // 2 + n], spread < 1e-9, np.correlate(x, taps, mode="valid")


class Biquad(NamedTuple):
    b: Any
    a: Any

    def run(self, x):
        """Direct form II, transposed, over the last axis."""
        y = np.empty_like(x)
        z1 = z2 = np.zeros(x.shape[:-1], x.dtype)
        for i in range(x.shape[-1]):
            s = x[..., i]
            out = self.b[0] * s + z1
            z1 = self.b[1] * s - self.a[1] * out + z2
            z2 = self.b[2] * s - self.a[2] * out
            y[..., i] = out
        return y


def iir(x, sections):
    """A cascade forwards and backwards (zero phase), then an envelope follower."""
    y = x
    for section in sections:
        y = section.run(y)
    y = y[..., ::-1]
    for section in sections:
        y = section.run(y)
    y = y[..., ::-1].copy()
    envelope = np.maximum.accumulate(np.abs(y), axis=-1)
    envelope[envelope < 1e-12] = 1
    y /= envelope
    return y, 20 * np.log10(envelope[..., -1])


def spectrogram(x, window_length=64, hop=16, floor=-80.0):
    """Short-time Fourier transform in decibels, with its spectral centroid and flux."""
    n = np.arange(window_length)
    window = (
        0.42 - 0.5 * np.cos(2 * np.pi * n / (window_length - 1)) + 0.08 * np.cos(4 * np.pi * n / (window_length - 1))
    )
    frames = sliding_window_view(x, window_length)[::hop]
    spectrum = rfft(frames * window, axis=-1)
    power = spectrum.real**2 + spectrum.imag**2
    power[:, 1:-1] *= 2
    power /= (window**2).sum()
    decibel = np.full(power.shape, floor)
    np.log10(power, out=decibel, where=power > 10 ** (floor / 10))
    np.multiply(decibel, 10, out=decibel, where=decibel != floor)
    frequency = rfftfreq(window_length)
    total = power.sum(axis=1)
    centroid = np.divide(power @ frequency, total, out=np.zeros_like(total), where=total > 0)
    flux = np.maximum(np.diff(power, axis=0), 0).sum(1)
    return decibel, centroid, np.concatenate(([0.0], flux))


def demodulate(received, carrier, symbol_length=16):
    """Complex baseband, matched filter, phase recovery by the fourth power, decisions and their errors."""
    n = np.arange(received.size)
    baseband = 2 * received * np.exp(-2j * np.pi * carrier * n)
    pulse = np.hanning(symbol_length)
    pulse = pulse / np.sqrt(pulse @ pulse)
    symbols = baseband[: received.size // symbol_length * symbol_length].reshape(-1, symbol_length) @ pulse
    symbols /= np.abs(symbols).mean()
    rotation = np.angle((symbols**4).sum()) / 4
    symbols *= np.exp(-1j * rotation)
    decided = (np.sign(symbols.real) + 1j * np.sign(symbols.imag)) / np.sqrt(2)
    error = symbols - decided
    bits = np.empty((symbols.size, 2), dtype=bool)
    bits[:, 0] = symbols.real > 0
    bits[:, 1] = symbols.imag > 0
    evm = np.sqrt(np.mean(np.abs(error) ** 2))
    return bits, evm, symbols.conj() * decided, np.vdot(decided, symbols)


def thin_film(wavelengths, indices, thicknesses, angle=0.3):
    """Reflectance of a stack of layers at an angle, both polarisations, by transfer matrices."""
    n = np.concatenate([[1.0 + 0j], indices, [1.52 + 0j]])
    sine = np.sin(angle) / n
    cosine = np.sqrt(1 - sine**2)
    result = {}
    for polarisation in "sp":
        admittance = n * cosine if polarisation == "s" else n / cosine
        total = np.zeros((wavelengths.size, 2, 2), dtype=complex)
        total[:, 0, 0] = total[:, 1, 1] = 1
        for layer in range(len(thicknesses)):
            phase = 2 * np.pi * n[layer + 1] * cosine[layer + 1] * thicknesses[layer] / wavelengths
            matrix = np.empty_like(total)
            matrix[:, 0, 0] = matrix[:, 1, 1] = np.cos(phase)
            matrix[:, 0, 1] = 1j * np.sin(phase) / admittance[layer + 1]
            matrix[:, 1, 0] = 1j * np.sin(phase) * admittance[layer + 1]
            total = total @ matrix
        field = total @ np.array([1, admittance[-1]])
        b, c = field[:, 0], field[:, 1]
        r = (admittance[0] * b - c) / (admittance[0] * b + c)
        result[polarisation] = (r * r.conj()).real
    return result, 0.5 * (result["s"] + result["p"])


def diffraction(aperture, wavelength=0.5, pixel=1.0, distances=(50.0, 100.0)):
    """Angular-spectrum propagation of a complex field, evanescent waves dropped."""
    k = 2 * np.pi / wavelength
    fy, fx = np.meshgrid(fftfreq(aperture.shape[0], pixel), fftfreq(aperture.shape[1], pixel), indexing="ij")
    argument = k**2 - (2 * np.pi) ** 2 * (fx**2 + fy**2)
    propagating = argument > 0
    kz = np.sqrt(np.where(propagating, argument, 0))
    field = aperture.astype(np.complex128)
    pictures = np.empty((len(distances), *aperture.shape))
    for picture, z in zip(pictures, distances, strict=True):
        transfer = np.exp(1j * kz * z)
        transfer[~propagating] = 0
        moved = ifft2(fft2(field) * transfer)
        np.abs(moved, out=picture)
        picture **= 2
    return pictures, pictures.sum(axis=(1, 2)) / (np.abs(field) ** 2).sum()


def mel_cepstrum(x, rate=8000, size=64, hop=32, bands=12, kept=6):
    """Cepstral coefficients on the mel scale: frames one by one, triangular filters by loops, slopes over time."""
    emphasised = np.append(x[0], x[1:] - 0.97 * x[:-1])
    count = 1 + (len(x) - size) // hop
    power = np.zeros((count, size // 2 + 1))
    for i in range(count):
        frame = emphasised[i * hop : i * hop + size] * np.hamming(size)
        power[i] = np.abs(np.fft.rfft(frame)) ** 2 / size
    top = 2595 * np.log10(1 + rate / 2 / 700)
    edges = np.floor((size + 1) * 700 * (10 ** (np.linspace(0, top, bands + 2) / 2595) - 1) / rate).astype(int)
    filters = np.zeros((bands, size // 2 + 1))
    for m in range(1, bands + 1):
        for k in range(edges[m - 1], edges[m]):
            filters[m - 1, k] = (k - edges[m - 1]) / (edges[m] - edges[m - 1])
        for k in range(edges[m], edges[m + 1]):
            filters[m - 1, k] = (edges[m + 1] - k) / (edges[m + 1] - edges[m])
    mel = power @ filters.T
    mel = np.where(mel == 0, np.finfo(float).eps, mel)
    basis = np.cos(np.pi / bands * (np.arange(bands) + 0.5) * np.arange(kept)[:, None])
    cepstrum = 20 * np.log10(mel) @ basis.T
    cepstrum -= cepstrum.mean(axis=0) + 1e-8
    slopes = np.zeros_like(cepstrum)
    padded = np.pad(cepstrum, ((2, 2), (0, 0)), mode="edge")
    for t in range(count):
        slopes[t] = np.dot(np.arange(-2, 3), padded[t : t + 5]) / 10
    return cepstrum, slopes


def pitch(x, longest=40, shortest=4):
    """The period of a sound by the differences that are left at each lag, and how deep each dips (YIN)."""
    differences = np.zeros(longest)
    for lag in range(1, longest):
        left = x[:longest] - x[lag : lag + longest]
        differences[lag] = np.dot(left, left)
    dips = differences[1:] * np.arange(1, longest) / np.cumsum(differences[1:])
    dips = np.insert(dips, 0, 1)
    return dips, shortest + np.argmin(dips[shortest:])


PROGRAMS = [
    ExampleProgram(fir, lambda rng, n: (rng.standard_normal(n), np.hamming(21) / 11), 50, 50_000),
    ExampleProgram(
        iir,
        lambda rng, n: (
            rng.standard_normal((n, 24)),
            [
                Biquad(np.array([0.2, 0.4, 0.2]), np.array([1, -0.4, 0.2])),
                Biquad(np.array([0.5, -1, 0.5]), np.array([1, 0.3, 0.1])),
            ],
        ),
        3,
        4000,
    ),
    ExampleProgram(spectrogram, lambda rng, n: (rng.standard_normal(n),), 200, 60_000, ("window_length", "hop")),
    ExampleProgram(demodulate, lambda rng, n: (rng.standard_normal(n), 0.123), 200, 100_000, ("symbol_length",)),
    ExampleProgram(
        thin_film,
        lambda rng, n: (np.linspace(0.4, 0.8, n), 1.4 + rng.random(5) + 0.01j * rng.random(5), rng.random(5) / 2),
        9,
        3000,
    ),
    ExampleProgram(diffraction, lambda rng, n: ((rng.random((n, n)) > 0.5).astype(float),), 16, 200),
    ExampleProgram(mel_cepstrum, lambda rng, n: (rng.standard_normal(n),), 800, 20_000),
    ExampleProgram(pitch, lambda rng, n: (rng.standard_normal(n), n // 2), 80, 1000, ("longest", "shortest")),
]
