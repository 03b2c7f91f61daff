"""Word to people when a run needs them, over the channels that they or base configure."""
