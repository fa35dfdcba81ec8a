package broken_test

import "testing"

// One unit with that of the package itself.
func TestBuilt(t *testing.T) {}
