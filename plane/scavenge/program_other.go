//go:build !linux

package scavenge

func releaseProgram() error { return nil }
