"""audit: findings in workflows, and tests that a matrix runs twice or omits."""
