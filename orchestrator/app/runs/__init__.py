"""Runs where they are stored: opened, listed, shown, exported, forked, cancelled."""
