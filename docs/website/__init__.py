"""The parts of the site that Sphinx has no extension for."""
