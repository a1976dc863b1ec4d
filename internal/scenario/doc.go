// Package scenario runs scripts against a whole cluster: the real programs, as a user starts them.
// A script is a txtar file of steps and expected tables, in the language of testscript
// (github.com/rogpeppe/go-internal), with these additional commands:
//
//	cluster start [flag...]     start the cluster program, wait until it is ready
//	cluster stop                interrupt it; it must end cleanly
//	cluster stop-now            interrupt it, and again when it reports the parts that it waits for
//	cluster ended               wait until it has ended by itself; it must end cleanly
//	cluster quiet               fail if it has logged an ERROR since the script began
//	cluster kill                kill -9
//	cluster leftovers           fail if a process, mount, namespace or cgroup of it is left
//	await TIME FILE CMD...      run CMD until it prints the table in FILE
//	http CODE PATH CMD...       GET PATH from every address in the IP column that CMD prints
//
// A table matches if its columns are among the printed ones and its rows are the printed ones in
// any order. In a cell, * stands for any characters.
package scenario
