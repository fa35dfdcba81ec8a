package shop

import "testing"

func TestB(t *testing.T) {
	F("b")
}
