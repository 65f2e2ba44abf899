"""The collector: receives batches, keeps them before it says so, writes its shard of the lake, watches its sources.

Not here: how a shard is written (`store.writer`), what is asked of it (`questions`).
"""
