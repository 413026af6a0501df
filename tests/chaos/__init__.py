"""Chaos with real processes: six instances, everything that may befall them, and a checker.

``python -m tests.chaos --store sqlite:////dev/shm/chaos/store/leasecron.db --minutes 5``
"""
