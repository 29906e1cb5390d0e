"""The store types that come with devmem, each a plugin like anyone else's."""
