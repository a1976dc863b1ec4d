//go:build race

package flowcontrol

// raceEnabled shortens tests of millions of steps.
const raceEnabled = true
