"""From a proposed patch to one that code has proven, or refused."""
