package shop

import "testing"

func TestE(t *testing.T) {
	F("e")
}
