package broken

import "testing"

func TestBuilt(t *testing.T) {}
