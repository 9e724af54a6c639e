"""Every setting, once: definitions, keywords, and how flags, files and objects become checked settings."""
