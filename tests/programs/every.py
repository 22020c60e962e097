"""All programs of this folder."""

from tests.programs import (
    differential_equations,
    finance,
    geometry,
    images,
    learning,
    particles,
    signals,
    statistics,
)
from tests.programs.program import ExampleProgram

FIELDS = (differential_equations, particles, statistics, images, signals, finance, learning, geometry)
PROGRAMS: list[ExampleProgram] = [program for field in FIELDS for program in field.PROGRAMS]
