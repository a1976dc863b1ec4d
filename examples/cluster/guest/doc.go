// Package guest runs machines inside this one: processes in network, mount, pid, uts and ipc
// namespaces of their own, which share the kernel and the files of the host. It needs Linux and root.
//
//	func main() {
//		if guest.IsInit() {
//			os.Exit(guest.Init())
//		}
//		...
//	}
//
//	network, err := guest.NewNetwork(guest.NetworkConfig{Bridge: "br0", Prefix: prefix})
//	err = network.Up(ctx)
//	m, err := guest.New(guest.Config{
//		Name: "node-1", Dir: dir, Network: network, Address: address, Program: []string{"/bin/node"},
//	})
//	err = m.Start()
//	...
//	err = m.Stop(ctx)
//	err = network.Down(ctx)
//
// # Model
//
// The first process of a machine is this program, which calls [Init]: it makes the machine's mounts,
// gives the network its address, starts the program, and reaps the processes that it inherits. What is
// in /run and the processes end with the machine; Dir and the other files of the host stay. Mounts of
// the machine are not seen outside it, and those of the host that come later are not seen in it.
//
// A [Network] joins machines to a bridge of the host, which is their gateway. What leaves the network
// has an address of the host.
//
// # Failure
//
// [Machine.Kill] is a power cut. A machine also ends with its program, and when the process that
// started it ends in any way. Its namespaces, mounts and links end with it. [Network.Down] removes the
// rest, and can be called by a later process.
//
// A process that ends can leave its machines on: [Machine.Leave] ends their programs alone. A later process, which may be
// of another version of this program, takes them over with [Machine.Adopt] or ends them with [End]. Their first process stays
// that of the version which started them.
package guest
