"""eqfuse turns array programs into fewer, cheaper kernels: trace → saturate → extract → emit → run.

A public name is imported when it is first used, so that `import eqfuse` is quick; `__init__.pyi` types them.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

_MODULES = {  # and the public names that each holds
    "budget": "Budget",
    "compiler": "extract",
    "cost.device": "Device",
    "egraph.saturate": "saturate",
    "extract.space_json": "load_space",
    "emit.onnx.model": "to_onnx",
    "errors": "EqfuseError LawError MemoryLimitError NanError ShapeError TargetUnavailable TraceError UnsupportedOp",
    "frontends.numpy.callback": "pure_callback",
    "frontends.numpy.loops": "cond fori_loop scan while_loop",
    "frontends.numpy.trace": "spec trace",
    "frontends.onnx.model": "from_onnx",
    "functions": "avg_pool batch_norm conv elu erf erfc exp gelu layer_norm leaky_relu log log_softmax logsumexp "
    "max_pool maximum minimum relu relu6 rms_norm sigmoid silu softmax softplus sqrt tanh where",
    "gradients.check": "check_grad",
    "gradients.checkpoint": "checkpoint checkpoint_policies remat",
    "gradients.custom": "custom_vjp",
    "gradients.grad": "grad value_and_grad",
    "gradients.jacobians": "hessian jacfwd jacrev",
    "gradients.nans": "debug_nans",
    "gradients.products": "jvp vjp",
    "gradients.stop": "stop_gradient",
    "gradients.training": "adam sgd train_step",
    "ir.evaluate": "meaning",
    "ir.graph": "Graph",
    "ir.text": "parse",
    "machine.thread_limit": "set_num_threads",
    "rewrites.checking.check": "check",
    "runtime.load": "load",
    "runtime.program": "Program emit",
    "specialise.compile": "compile",
    "specialise.disabled": "disable",
    "specialise.jit": "jit",
    "specialise.split": "split_vjp",
    "specialise.torch_backend": "torch_backend",
}
_HOMES = {name: f"eqfuse.{module}" for module, names in _MODULES.items() for name in names.split()}
__all__ = sorted([*_HOMES, "xp"])


class _Package(ModuleType):
    """A module whose public names are imported when they are first used."""

    def __getattr__(self, name: str) -> Any:
        if name == "xp":
            return import_module("eqfuse.xp")
        if name not in _HOMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        super().__setattr__(name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Importing the package `eqfuse.emit` would set the attribute `emit`, which stays the function."""
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
