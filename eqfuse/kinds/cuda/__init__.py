"""How kernels run on a GPU: one file for each template, which makes its schedule.

In: a body and a device. Out: `CudaSchedule`. Next stop: prices in `eqfuse.kinds`, text in `eqfuse.emit.cuda`.
"""
