"""Measures Tandem beside llama.cpp on this machine: `make bench`, or `python -m bench`."""
