package shop

import "testing"

func TestA(t *testing.T) {
	F("a")
}
