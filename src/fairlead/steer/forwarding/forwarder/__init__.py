"""The forwarder: receives, classifies, queues, executes, replies."""
