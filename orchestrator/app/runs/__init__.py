"""Stored runs: opened, listed, shown, exported, forked, cancelled."""
