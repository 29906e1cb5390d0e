"""How well a store finds what a question needs: conversations with questions and their evidence."""
