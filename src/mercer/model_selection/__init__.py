"""Model selection by successive halving: candidates, sample, schedule, scores and leaderboard."""
