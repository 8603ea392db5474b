"""What is concluded of studies, and what their sources published beside it."""
