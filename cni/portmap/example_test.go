//go:build linux

package portmap_test

import (
	"encoding/json"
	"log"
	"os"

	"github.com/planekit/planekit/cni/portmap"
)

// The plugin's configuration, as a part of a list after a plugin that gives addresses.
func Example() {
	conf := portmap.Conf{
		Type:         "portmap",
		Capabilities: map[string]bool{"portMappings": true},
		ConditionsV4: []string{"!", "-s", "192.0.2.0/24"}, // whose connections are not forwarded
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(conf); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {
	//   "type": "portmap",
	//   "capabilities": {
	//     "portMappings": true
	//   },
	//   "conditionsV4": [
	//     "!",
	//     "-s",
	//     "192.0.2.0/24"
	//   ]
	// }
}
