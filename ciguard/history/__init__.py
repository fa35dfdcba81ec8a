"""The history of past runs: conversion of records, merge of histories, and their stores."""
