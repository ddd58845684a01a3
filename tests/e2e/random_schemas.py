"""Random JSON Schemas, none of which lets an answer go on for ever: a small model that draws digits or letters often does not
end by itself."""

WORDS = ["name", "age", "city", "tags", "price", "größe", "a b", "x\"y", "id", "notes"]
PATTERNS = ["^[A-Z]{2}-[0-9]{3}$", "^(red|green|blue)$", "^[a-z]{1,8}@[a-z]{1,8}\\.com$", "^\\d{4}-\\d{2}$"]
FORMATS = ["date", "uuid", "ipv4"]


def scalar(rng):
    return rng.choice([
        lambda: {"type": "boolean"}, lambda: {"type": "null"},
        lambda: {"type": "integer", "minimum": rng.randint(-50, 0), "maximum": rng.randint(1, 9999)},
        lambda: {"type": "string", "maxLength": rng.randint(1, 30)},
        lambda: {"type": "string", "minLength": 2, "maxLength": 12},
        lambda: {"type": "string", "pattern": rng.choice(PATTERNS)},
        lambda: {"type": "string", "format": rng.choice(FORMATS)},
        lambda: {"enum": rng.sample(["a", "b c", 1, 2.5, None, True, "ü"], 3)},
        lambda: {"const": rng.choice(["fixed", 7, {"k": [1, 2]}])},
        lambda: {"type": ["integer", "null"], "minimum": 0, "maximum": 10**9},
    ])()


def schema(rng, depth=3):
    """A schema that nests at most `depth` deep."""
    kind = rng.choice(["scalar", "object", "object", "array", "tuple", "any"]) if depth > 0 else "scalar"
    if kind == "object":
        names = rng.sample(WORDS, rng.randint(1, 4))
        return {"type": "object", "properties": {name: schema(rng, depth - 1) for name in names},
                "required": [name for name in names if rng.random() < 0.6], "additionalProperties": False}
    if kind == "array":
        return {"type": "array", "items": schema(rng, depth - 1), "minItems": rng.randint(0, 2), "maxItems": rng.randint(2, 4)}
    if kind == "tuple":
        items = [schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items), "maxItems": len(items)}
    if kind == "any":
        return {"anyOf": [schema(rng, depth - 1) for _ in range(2)]}
    return scalar(rng)
