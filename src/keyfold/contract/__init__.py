"""The storage contract: the words engines and everything above them share. Pure."""
