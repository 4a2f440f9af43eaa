"""What is asked of a capture, and what is answered: signals by every channel, notifications."""
