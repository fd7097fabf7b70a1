"""Learning from shards: moments and bands of parts of a task, each computed where its data lie."""
