// Package fleet runs the nodes of a cluster as machines on this host, see package guest: it connects the API server
// to their network, starts the machines and waits until their nodes are ready, starts those again that end, and keeps
// routes to their pods. It needs Linux and root.
//
//	f, err := fleet.New(fleet.Config{ID: id, Network: machines, Pods: pods})
//	listener, err = f.Connect(ctx, s, listener) // the API server accepts connections of machines too
//	err = f.Start(ctx, s, nodes, cache)
//
// # Failure
//
// A machine that ends is logged with the last line of its log. With Restart it is started again after a delay that
// doubles from one second to 30; a hangup (SIGHUP) of this process starts all machines that are off at once. When the
// stack stops, machines are asked to end, and killed once StopNow is closed. A stack that leaves what outlives the process leaves
// the machines on, but for their programs, and the next fleet takes them over.
package fleet
