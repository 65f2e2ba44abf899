"""What runs of an application are usually like: phases as rows, categories, profiles, runs like this one. Pure."""
