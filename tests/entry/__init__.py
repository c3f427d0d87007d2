"""What a user starts: the entry points, the README, the web server, the demo's graph."""
