package containerd_test

import (
	"fmt"

	"github.com/planekit/planekit/examples/cluster/containerd"
)

func Example() {
	daemon, err := containerd.New(containerd.Config{
		Root: "/var/lib/planekit", CNIConf: "/var/lib/planekit/net.d", CNIBin: "/opt/cni/bin",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(daemon.Socket())
	// Output: /run/planekit/1bb10163ed59/containerd.sock
}
