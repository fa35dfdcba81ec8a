package shop

import "testing"

func TestC(t *testing.T) {
	F("c")
}
