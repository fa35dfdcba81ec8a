#!/bin/sh
test -z "$FAIL"
