"""Installs the peers, starts their servers, runs their drivers and summarizes the results."""
