"""Worker processes as the operating system sees them: started, watched, signalled, reaped, and gone."""
