"""Notifications when a run needs a person, over channels that users or base configure."""
