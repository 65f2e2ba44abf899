"""Who or what took a phase's time: neighbours on shared components, their evidence, the verdict. Pure."""
