"""Bytes between workers: who is in the team, tagged messages over sockets or shared memory, deadlines, counters."""
