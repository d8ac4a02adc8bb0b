"""What orders the threads of a batch where more than whole blocks meet: clusters, counted barriers and mbarriers."""
