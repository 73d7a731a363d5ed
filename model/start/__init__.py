"""Where training begins: what a run goes on from or takes weights from, found, checked, read."""
