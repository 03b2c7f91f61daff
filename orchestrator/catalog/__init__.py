"""Agents, skills, rubrics and config, read from data files with the place of every fault."""
