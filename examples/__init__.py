"""Complete external extractors, written as an application would write them: on the SDK alone."""
