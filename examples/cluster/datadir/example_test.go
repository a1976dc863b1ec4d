package datadir_test

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/examples/cluster/datadir"
)

// A cluster that starts again on its directory has the identity and the range of addresses that it had.
func Example() {
	path, err := os.MkdirTemp("", "cluster-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(path)
	var ids []string
	for range 2 {
		dir, err := datadir.Open(path)
		if err != nil {
			panic(err)
		}
		kept, err := dir.PodNetwork(logr.Discard())
		if err != nil {
			panic(err)
		}
		fmt.Println("kept:", kept)
		if err := dir.KeepPodNetwork(netip.MustParsePrefix("10.244.0.0/16")); err != nil {
			panic(err)
		}
		ids = append(ids, dir.ID())
		if err := dir.Close(); err != nil {
			panic(err)
		}
	}
	fmt.Println("same identity:", ids[0] == ids[1])
	// Output:
	// kept: invalid Prefix
	// kept: 10.244.0.0/16
	// same identity: true
}
