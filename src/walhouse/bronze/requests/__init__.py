"""What is asked of a capture, what is done about it, and what is answered: signals, ``serve``, notifications."""
