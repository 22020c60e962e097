"""Moves on a cover: each is priced by what it changes, none makes it costlier."""
