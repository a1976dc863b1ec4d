package bridge_test

import (
	"encoding/json"
	"log"
	"net/netip"
	"os"

	"github.com/planekit/planekit/cni/bridge"
	"github.com/planekit/planekit/cni/hostlocal"
)

// The plugin's configuration, as a part of a list.
func Example() {
	conf := bridge.Conf{
		Type: "bridge", Bridge: "pk0", IsDefaultGateway: true, IPMasq: true,
		ClusterCIDR: bridge.Prefixes{netip.MustParsePrefix("10.244.0.0/16")},
		IPAM: hostlocal.IPAM{
			Type:  "host-local",
			Range: hostlocal.Range{Subnet: netip.MustParsePrefix("10.244.1.0/24")},
		},
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(conf); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {
	//   "type": "bridge",
	//   "bridge": "pk0",
	//   "isDefaultGateway": true,
	//   "ipMasq": true,
	//   "clusterCIDR": "10.244.0.0/16",
	//   "ipam": {
	//     "type": "host-local",
	//     "subnet": "10.244.1.0/24"
	//   }
	// }
}
