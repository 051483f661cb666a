"""Stands in for the first instructions of a worker: it never becomes the program."""

import signal

signal.pause()
