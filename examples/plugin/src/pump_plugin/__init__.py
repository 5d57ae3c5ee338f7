"""A pump with two wear rates: an example of a package that extends psrl-pomdp."""
