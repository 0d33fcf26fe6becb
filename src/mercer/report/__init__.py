"""A leaderboard as one page of HTML with its figures inside."""
