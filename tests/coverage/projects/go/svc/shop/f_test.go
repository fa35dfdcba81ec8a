package shop

import "testing"

func TestF(t *testing.T) {
	F("f")
}
