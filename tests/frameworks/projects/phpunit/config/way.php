<?php
// What the tests do wrong: one of the words of the environment variable WAY.
function way(string $name): bool
{
    return getenv('WAY') === $name;
}

function hog(): void
{
    for ($text = ''; ;) {
        $text .= str_repeat('x', 1 << 24);
    }
}
