"""The pages of diagnosis as single files: findings, a job's why, health, behaviour."""
