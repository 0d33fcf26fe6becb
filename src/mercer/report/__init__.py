"""HTML report of a leaderboard."""
