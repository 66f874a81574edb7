def small(recipe, work):
    return recipe
