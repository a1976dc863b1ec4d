//go:build linux

package chain_test

import (
	"fmt"
	"log"
	"net/netip"

	"github.com/planekit/planekit/cni/chain"
)

// The configuration of one node's network, as a runtime reads it.
func Example() {
	network := chain.Network{
		PodCIDRs:     []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")},
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		Masquerade:   true,
	}
	conf, err := network.ConfList()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", conf)
	// Output:
	// {
	//   "cniVersion": "1.0.0",
	//   "cniVersions": [
	//     "0.4.0",
	//     "1.0.0",
	//     "1.1.0"
	//   ],
	//   "name": "planekit",
	//   "plugins": [
	//     {
	//       "type": "planekit-cni",
	//       "delegates": [
	//         {
	//           "type": "bridge",
	//           "bridge": "planekit0",
	//           "isGateway": true,
	//           "isDefaultGateway": true,
	//           "hairpinMode": true,
	//           "addressspoofchk": true,
	//           "ipMasq": true,
	//           "clusterCIDR": "10.244.0.0/16",
	//           "lockDir": "/var/lib/planekit/cni",
	//           "ipam": {
	//             "type": "host-local",
	//             "ranges": [
	//               [
	//                 {
	//                   "subnet": "10.244.1.0/24"
	//                 }
	//               ]
	//             ],
	//             "dataDir": "/var/lib/planekit/cni/networks"
	//           }
	//         },
	//         {
	//           "type": "portmap",
	//           "capabilities": {
	//             "portMappings": true
	//           },
	//           "scope": "planekit0",
	//           "lockDir": "/var/lib/planekit/cni"
	//         }
	//       ],
	//       "dir": "/var/lib/planekit/cni",
	//       "capabilities": {
	//         "portMappings": true
	//       }
	//     }
	//   ]
	// }
}
