package scavenge

import "runtime/debug"

// Settle returns to the operating system what only the start of a process needed: garbage, which an idle process would not
// collect for two minutes, and the pages of the program, most of which nothing needs again. The kernel maps those that
// are needed from its cache, at a microsecond each. It takes some 50 ms of processor time.
func Settle() {
	debug.FreeOSMemory()
	_ = releaseProgram() // pages that cannot be returned are kept, and do no harm
}
