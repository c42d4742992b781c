"""Model averaging: parts train by themselves, in turn or at once, and their models are averaged."""
