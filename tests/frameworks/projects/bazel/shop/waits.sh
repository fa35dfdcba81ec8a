#!/bin/sh
test "$WAY" != kill || kill -9 $$
test "$WAY" != hang || sleep 100
