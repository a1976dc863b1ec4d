//go:build linux

package overlay_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/planekit/planekit/cni/overlay"
)

// A set of members that a program keeps. A member that claims the range of another one is refused.
func Example() {
	members := overlay.NewSet(
		overlay.Member{
			Name: "b", Address: netip.MustParseAddr("192.0.2.2"),
			Subnets: []netip.Prefix{netip.MustParsePrefix("10.64.2.0/24")}, Backend: overlay.VXLAN,
			Data: overlay.Data{MAC: overlay.MAC{2, 0, 0, 0, 0, 2}, VNI: 1, Port: 8472},
		},
	)
	o, err := overlay.New(overlay.Config{
		Local: overlay.Member{
			Name: "a", Address: netip.MustParseAddr("192.0.2.1"),
			Subnets: []netip.Prefix{netip.MustParsePrefix("10.64.1.0/24")},
		},
		Network: []netip.Prefix{netip.MustParsePrefix("10.64.0.0/16")},
		Members: members,
		Publish: members.Put, // a program publishes it to the other machines
	})
	if err != nil {
		log.Fatal(err)
	}
	run := func(ctx context.Context) {
		go func() {
			if err := o.Run(ctx); err != nil { // blocks until ctx is done
				log.Print(err)
			}
		}()
		<-o.Ready()
		fmt.Println("the MTU of pods is", o.MTU())
	}
	_ = run // it changes the host's routes

	_, err = overlay.New(overlay.Config{Members: members, Local: overlay.Member{
		Name: "a", Address: netip.MustParseAddr("127.0.0.1"), Subnets: []netip.Prefix{netip.MustParsePrefix("10.64.1.0/24")},
	}})
	fmt.Println(err)
	// Output:
	// overlay: Local: address 127.0.0.1 is special
}
