package main

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/client/kubeconfig"
)

// A peer is a scheduler that is measured.
type peer struct {
	name string
	// own says that it is planekit's.
	own bool
	// core makes its decision core.
	core func(context.Context) (core, error)
	// run schedules the pods of a cluster until ctx is done.
	run func(ctx context.Context, config *kubeconfig.Config) error
}

func peers() []peer {
	return []peer{
		{"planekit", true, newOwnCore, runOwn},
		{"stock, all nodes", false, newStockCore(100), runStock(100)},
		{"stock, default", false, newStockCore(0), runStock(0)},
	}
}

// chosenPeers returns the peers that a flag names.
func chosenPeers(name string) (list []peer, err error) {
	for _, p := range peers() {
		switch {
		case name == "both", name == "own" && p.own, name == "stock" && !p.own:
			list = append(list, p)
		}
	}
	if list == nil {
		return nil, fmt.Errorf("the peer is own, stock or both, not %q", name)
	}
	return list, nil
}
