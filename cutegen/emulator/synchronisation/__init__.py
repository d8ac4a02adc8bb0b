"""Synchronisation of a batch's threads beyond whole-block barriers: clusters, counted barriers and mbarriers."""
