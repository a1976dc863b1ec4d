//go:build race

package lint

// raceFlag is the flag that this test was built with.
var raceFlag = []string{"-race"}
