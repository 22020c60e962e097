"""eqfuse turns array programs into fewer, cheaper kernels: trace → saturate → extract → emit → run."""

from eqfuse.egraph import Budget, saturate
from eqfuse.errors import EqfuseError, LawError, ShapeError, TargetUnavailable, TraceError, UnsupportedOp
from eqfuse.functions import *  # noqa: F403  (relu, softmax, conv, …: the names are listed there)
from eqfuse.hardware import Device
from eqfuse.ir import Graph, parse
from eqfuse.jit import jit
from eqfuse.meaning import meaning
from eqfuse.trace import spec, trace

__version__ = "0.1.0"
