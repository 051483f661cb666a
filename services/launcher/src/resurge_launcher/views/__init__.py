"""Pictures of recoveries and jobs: pure functions from records to text, HTML and trace files."""
