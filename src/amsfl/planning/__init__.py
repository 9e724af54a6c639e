"""Who does how many steps this round: the planner's context, decisions and memory."""
