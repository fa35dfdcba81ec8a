package shop

import "testing"

func TestH(t *testing.T) {
	F("b")
}
