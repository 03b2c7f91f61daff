"""Tools from Model Context Protocol servers, as tools of the engine."""
