// Package noderuntime is the container runtime of a node whose containers are real: a containerd, of the node's own or
// one that was there, which calls planekit's network plugins. It needs Linux and root.
//
//	func main() {
//		if code, ok := noderuntime.AsPlugin(); ok { // the network plugins may be links to this program
//			os.Exit(code)
//		}
//		...
//	}
//
//	runtime, err := noderuntime.New(noderuntime.Config{
//		Dir: dir, Name: "planekit", Bridge: "br0", Pods: pods, Cgroup: "/node-1", Plugin: "/bin/planekit-cni",
//	})
//	err = nodes.Start(ctx, p, s, nodes.Config{Name: "node-1", Runtime: runtime, ...})
//
// A containerd of the node's own is started, restarted when it ends, and stopped. One that was there gets the plugins
// and a network configuration in the directories that it names, which are removed in the end.
package noderuntime
