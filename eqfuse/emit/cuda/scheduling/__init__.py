"""How kernels run on a GPU: one file for each template, which makes its schedule; the kinds' rows name them.

In: a body and a device. Out: `CudaSchedule`. Next stop: its price in the search, its text.
"""
