"""The public names, for type checkers and editors. `__init__.py` imports each when it is first used."""

from eqfuse import xp
from eqfuse.budget import Budget
from eqfuse.compiler import extract
from eqfuse.cost.device import Device
from eqfuse.egraph.saturate import saturate
from eqfuse.emit.onnx.model import to_onnx
from eqfuse.errors import (
    EqfuseError,
    LawError,
    MemoryLimitError,
    NanError,
    ShapeError,
    TargetUnavailable,
    TraceError,
    UnsupportedOp,
)
from eqfuse.extract.space_json import load_space
from eqfuse.frontends.numpy.callback import pure_callback
from eqfuse.frontends.numpy.loops import cond, fori_loop, scan, while_loop
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.frontends.onnx.model import from_onnx
from eqfuse.functions import (
    avg_pool,
    batch_norm,
    conv,
    elu,
    erf,
    erfc,
    exp,
    gelu,
    layer_norm,
    leaky_relu,
    log,
    log_softmax,
    logsumexp,
    max_pool,
    maximum,
    minimum,
    relu,
    relu6,
    rms_norm,
    sigmoid,
    silu,
    softmax,
    softplus,
    sqrt,
    tanh,
    where,
)
from eqfuse.gradients.check import check_grad
from eqfuse.gradients.checkpoint import checkpoint, checkpoint_policies, remat
from eqfuse.gradients.custom import custom_vjp
from eqfuse.gradients.grad import grad, value_and_grad
from eqfuse.gradients.jacobians import hessian, jacfwd, jacrev
from eqfuse.gradients.nans import debug_nans
from eqfuse.gradients.products import jvp, vjp
from eqfuse.gradients.stop import stop_gradient
from eqfuse.gradients.training import adam, sgd, train_step
from eqfuse.ir.evaluate import meaning
from eqfuse.ir.graph import Graph
from eqfuse.ir.text import parse
from eqfuse.machine.thread_limit import set_num_threads
from eqfuse.rewrites.checking.check import check
from eqfuse.runtime.load import load
from eqfuse.runtime.program import Program, emit
from eqfuse.specialise.compile import compile
from eqfuse.specialise.disabled import disable
from eqfuse.specialise.jit import jit
from eqfuse.specialise.split import split_vjp
from eqfuse.specialise.torch_backend import torch_backend

__version__: str

__all__ = [
    "Budget", "Device", "EqfuseError", "Graph", "LawError", "MemoryLimitError", "NanError", "Program", "ShapeError",
    "TargetUnavailable", "TraceError", "UnsupportedOp", "adam", "avg_pool", "batch_norm", "check", "check_grad",
    "checkpoint", "checkpoint_policies", "compile", "cond", "conv", "custom_vjp", "debug_nans", "disable", "elu",
    "emit", "erf", "erfc", "exp", "extract", "fori_loop", "from_onnx", "gelu", "grad", "hessian", "jacfwd",
    "jacrev", "jit", "jvp", "layer_norm", "leaky_relu", "load", "load_space", "log", "log_softmax", "logsumexp",
    "max_pool", "maximum", "meaning", "minimum", "parse", "pure_callback", "relu", "relu6", "remat", "rms_norm",
    "saturate", "scan", "set_num_threads", "sgd", "sigmoid", "silu", "softmax", "softplus", "spec", "split_vjp",
    "sqrt", "stop_gradient", "tanh", "to_onnx", "torch_backend", "trace", "train_step", "value_and_grad", "vjp",
    "where", "while_loop", "xp",
]  # fmt: skip
