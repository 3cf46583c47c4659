"""What the edge's benchmarks share: prompts that replicas hold, the load, the processes under it and what they cost."""
