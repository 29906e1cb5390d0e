"""The subcommands of `devmem`, one module each; a module is imported when its command is used."""
