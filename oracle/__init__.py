"""The oracle: walhouse beside Debezium's own engine, on the same WAL, event by event.

``scenario`` reads what is to be compared, ``record`` runs it on a real server and keeps frames, catalog and Debezium's
events (``recording``), ``replay`` takes the frames through the decoder, bronze's frame and silver, ``compare`` says
what differs. ``python -m oracle`` compares, ``python -m oracle --record`` records anew.
"""
