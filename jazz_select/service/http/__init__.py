"""What every request passes on its way in and out: limits, a body that is whole, an id, a line in a log, metrics."""
