"""Screens: the verdict as text."""
