package shop

import "testing"

func TestG(t *testing.T) {
	F("b")
}
