"""plan: units and what is known of them -> a balanced matrix that fits time and memory."""
