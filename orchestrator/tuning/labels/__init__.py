"""People's labels: their files, how they are gathered, and what they say of judge and rubric."""
