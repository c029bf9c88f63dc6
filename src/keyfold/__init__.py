"""Memory for AI agents, keyed, revisioned and safe to repeat."""
