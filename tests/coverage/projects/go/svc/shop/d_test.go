package shop

import "testing"

func TestD(t *testing.T) {
	F("d")
}
