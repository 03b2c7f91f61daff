"""The MCP server with which coding agents call reviews (extra ``mcp``)."""
