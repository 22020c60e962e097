"""What a kernel costs on a GPU: the price of its schedule.

In: a `CudaSchedule`, the work of its operators, a `Device`. Out: `Price`.
"""

from __future__ import annotations

from dataclasses import replace

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.roofline import compiled_price
from eqfuse.cost.work import Work
from eqfuse.kinds.cuda.calls import CallsSchedule
from eqfuse.kinds.cuda.products import ProductSchedule
from eqfuse.kinds.cuda.schedule import CudaSchedule
from eqfuse.kinds.product import seconds


def schedule_price(schedule: CudaSchedule, done: Work, device: Device) -> Price:
    compute = done.seconds
    if isinstance(schedule, ProductSchedule):  # its multiplications at the rate of the template
        compute += seconds(schedule.product, device) - schedule.product.library
    on_host = isinstance(schedule, CallsSchedule) and schedule.host
    found = compiled_price(
        schedule.bytes_read, schedule.bytes_written, 0.0 if on_host else compute, done.flops, device, schedule.blocks,
        schedule.calls,
    )  # fmt: skip
    if isinstance(schedule, CallsSchedule):
        return replace(found, seconds=found.seconds + schedule.host_seconds)
    return found
