"""MCP servers of a review: starting them, opening their tools, and accepting what they describe."""
