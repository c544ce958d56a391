"""Installs the peers, starts what they need, runs their drivers and sums up what they print."""
