"""Workers on Ray: their driver, its watch over them, and how a training ends."""
