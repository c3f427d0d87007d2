"""What a user starts: the entry points, README, the web server, the demo's graph."""
