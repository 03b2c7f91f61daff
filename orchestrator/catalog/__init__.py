"""Agents, skills, rubrics and config, read from data files; errors name file and line."""
