"""A study: several methods, each over the same trials, as one readable settings file and one folder."""
