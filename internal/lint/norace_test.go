//go:build !race

package lint

// raceFlag is empty: this test was built without the race detector.
var raceFlag []string
