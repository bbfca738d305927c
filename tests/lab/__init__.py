"""A leaf-spine network of namespaces with appliances at its leaves and spines: built, tested, taken down."""
