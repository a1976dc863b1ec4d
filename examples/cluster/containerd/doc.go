// Package containerd runs a containerd of one's own beside whatever else the
// machine runs: its own configuration, root, state and socket, nothing shared.
//
//	daemon, err := containerd.New(containerd.Config{Root: dir, CNIConf: conf, CNIBin: bin})
//	err = daemon.Start(ctx)  // or finds the one that an earlier process left running
//	...
//	err = daemon.Stop(ctx)
//
// The daemon outlives the process that started it: containers must not die with
// a crash of what manages them. The next process with the same Root adopts
// the daemon and its containers. Stop ends the daemon, and with it every
// container that is still there, and unmounts what they leave.
//
// The state directory and the socket are in /run, under a name made from Root,
// since a socket's path has room for 107 bytes only.
package containerd
