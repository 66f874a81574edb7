"""The command lines of the plugin, which need torch and fairseq."""
