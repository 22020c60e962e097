"""The ways into eqfuse: what each array library calls its functions, in operators of the table. Next stop: `trace`."""
